-- What operators did, the latest first, before the entry ?1: ?2 entries at most.

-- audit: to anything. Index: primary key.
--
-- audit_event: to the event ?3. Index: outbox_audit_event, and a plan without it fails.
-- text audit, audit_event
select seq, at, action, actor, reason, event_id, event_type, attempts, last_error, subject
  from outbox_audit                                 -- [audit]
  from outbox_audit indexed by outbox_audit_event   -- [audit_event]
 where seq < ?1
   and event_id = ?3                                -- [audit_event]
 order by seq desc
 limit ?2
