-- claim_suspects: the visible rows that were lost before and are lost again, oldest due first.
-- Guarantee: as `claim`, for exactly the rows that `claim` leaves out.
-- Index: outbox_event_suspect, and a plan without it fails.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses
  from outbox_event indexed by outbox_event_suspect
 where status in (0, 2) and losses > 0
   and due_at >= ?6 and due_at <= ?1
   and (created_at <= ?2 or created_at > ?1)
   and created_at >= ?5
   and losses + (locked_by is not null and locked_by <> ?3) >= 2
 order by due_at, seq
 limit ?4
