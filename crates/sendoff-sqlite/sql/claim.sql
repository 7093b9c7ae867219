-- claim: the visible rows that may run in company, oldest due first.
-- Guarantee: part one of a claim; `hold` follows in the same immediate transaction, so no other
-- claim comes between. Leaves suspects out. Index: outbox_event_due, and a plan without it fails.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses
  from outbox_event indexed by outbox_event_due
 where status in (0, 2)
   and due_at >= ?6 and due_at <= ?1
   and (created_at <= ?2 or created_at > ?1)
   and created_at >= ?5
   and losses + (locked_by is not null and locked_by <> ?3) < 2
 order by due_at, seq
 limit ?4
