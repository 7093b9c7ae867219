-- extend: holds that last longer.
-- Guarantee: a stale token changes nothing; the new due time is never the old one. Waits for no row
-- (I11): one that somebody has locked is answered without a due time, if this statement saw it held
-- by the token.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.
with batch as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
), mine as materialized (
    select e.event_id, e.created_at, s.token
      from batch s
      join sendoff.outbox_event e on e.event_id = any (array[s.id])
     where e.due_at is not distinct from s.token
       and e.status % 2 = 0 and e.locked_by is not null
     order by s.id
       for no key update of e skip locked
), extended as (
    update sendoff.outbox_event e
       set due_at = now() + $3::interval
                  + case when m.token = now() + $3::interval then interval '1 microsecond'
                         else interval '0' end
      from mine m
     where e.event_id = any (array[m.event_id]) and e.created_at = m.created_at
    returning e.event_id, e.due_at
)
select event_id, due_at from extended
union all
select e.event_id, null
  from batch s
  join sendoff.outbox_event e on e.event_id = any (array[s.id])
 where (select count(*) from mine) < cardinality($1::uuid[])
   and e.due_at is not distinct from s.token
   and e.status % 2 = 0 and e.locked_by is not null
   and s.id not in (select event_id from mine)
