-- partition_tail: how many rows of the tail lie in a range, counted up to a limit.
-- Guarantee: reads no more rows than the limit. Index: outbox_event_pmax_created.
select count(*)
  from (select from sendoff.outbox_event_pmax
         where created_at >= $1::timestamptz and created_at < $2::timestamptz
         limit $3::bigint) found
