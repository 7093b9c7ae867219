-- extend: holds that last longer.
-- Guarantee: a stale token changes nothing; the new due time is never the old one. Rows are locked
-- first, in the order of their ids: two batches never wait for each other.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.
with mine as materialized (
    select event_id from sendoff.outbox_event
     where event_id = any ($1::uuid[])
     order by event_id
       for update
)
update sendoff.outbox_event e
   set due_at = now() + $3::interval
              + case when s.token = now() + $3::interval then interval '1 microsecond'
                     else interval '0' end
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
 where (select count(*) from mine) > 0
   and e.event_id = any (array[s.id]) and e.due_at is not distinct from s.token
   and e.status % 2 = 0 and e.locked_by is not null
returning e.event_id, e.due_at
