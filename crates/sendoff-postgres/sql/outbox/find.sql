-- find: one row as it stands. Index: primary key.
--
-- peek: the first $1 pending rows in the order of claims, as they stand. Takes and locks nothing.
-- Index: outbox_event_due.
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       attempts, due_at, created_at,
       status, done_at, last_error, locked_by, losses,
       unavailable_since, unroutable_since, delayed_until
  from sendoff.outbox_event
 where event_id = $1::uuid  -- [find]
 where status in (0, 2)     -- [peek]
 order by due_at, seq       -- [peek]
 limit $1::bigint           -- [peek]
