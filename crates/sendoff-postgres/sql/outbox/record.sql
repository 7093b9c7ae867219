-- record: one row, column by column; its payload only if $2, and its size without reading it. Of several with
-- one id, in partitions, the one that was written last. A row in line is due at no time. Index: primary key.
select event_id, seq, event_type, aggregate_type, aggregate_id, tenant_id, attempts, created_at, done_at,
       last_error, ordering_key, shard, content_type, headers, status, losses, occurred_at,
       case when due_at between '9998-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' then null
            else due_at end,
       unavailable_since, unroutable_since, delayed_until, locked_by, octet_length(payload),
       case when $2::boolean then payload end
  from sendoff.outbox_event
 where event_id = $1::uuid
 order by created_at desc
 limit 1
