-- lock: the visible rows, oldest due first.
-- Guarantee: runs in an immediate transaction that stays open, so that nobody else writes anything;
-- nothing is written. Index: outbox_event_due, and a plan without it fails.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses
  from outbox_event indexed by outbox_event_due
 where status in (0, 2)
   and due_at >= ?5 and due_at <= ?1
   and (created_at <= ?2 or created_at > ?1)
   and created_at >= ?3
 order by due_at, seq
 limit ?4
