-- What operators did, the latest first, before an entry.

-- audit: to anything. Index: primary key.
--
-- audit_event: to one event. Index: outbox_audit_event.
-- text audit, audit_event
select seq, at, action, actor, reason, event_id, event_type, attempts, last_error, subject
  from sendoff.outbox_audit
 where seq < :before
   and event_id = :id  -- [audit_event]
 order by seq desc
 limit :limit
