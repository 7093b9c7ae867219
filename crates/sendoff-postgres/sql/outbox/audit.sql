-- What operators did, the latest first, before the entry $1: $2 entries at most.

-- audit: to anything. Index: primary key.
--
-- audit_event: to the event $3. Index: outbox_audit_event; there are few of one event.
-- text audit, audit_event
select seq, at, action, actor, reason, event_id, event_type, attempts, last_error, subject
  from sendoff.outbox_audit
 where seq < $1::bigint
   and event_id = $3::uuid  -- [audit_event]
 order by seq desc
 limit $2::bigint
