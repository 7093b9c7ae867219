-- lock: the visible rows, locked until the end of the transaction, oldest due first.
-- Guarantee: two transactions never get the same row, and nothing is written; a holder who vanished
-- is counted in what is returned. Index: outbox_event_due.
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       attempts + case when locked_by is null then 0 else 1 end as attempts, due_at, created_at,
       seq, due_at as was_due, locked_by is not null as lost, now() as claimed_at
  from sendoff.outbox_event
 where status in (0, 2)
   and due_at <= now()
   and (created_at <= now() - $2::interval or created_at > now())
   and created_at >= coalesce(now() - $3::interval, '-infinity')
 order by due_at, seq
 limit $1::bigint
   for update skip locked
