-- record: one row, column by column; its payload only if ?2. A row in line has no due time.
-- Index: unique (event_id).
select event_id, seq, event_type, aggregate_type, aggregate_id, tenant_id, attempts, created_at, done_at,
       last_error, ordering_key, shard, content_type, headers, status, losses, occurred_at,
       case when due_at < 253339228800000000 then due_at end,
       unavailable_since, unroutable_since, delayed_until, locked_by, length(payload),
       case when ?2 then payload end
  from outbox_event
 where event_id = ?1
