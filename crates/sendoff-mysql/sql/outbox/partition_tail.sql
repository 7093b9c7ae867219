-- partition_tail: how many rows the tail has, counted up to a limit, and when about the oldest was
-- created. Index: outbox_event_seq.
select (select count(*) from (select 1 from sendoff.outbox_event partition (pmax) limit :limit) found),
       (select created_at from sendoff.outbox_event partition (pmax) order by seq limit 1)
