-- purge: forget delivered rows, and dead ones when asked ($3), those that ended first of all first:
-- before a moment ($4), or longer ago than an age ($1) where it is null.
-- Guarantee: only terminal rows go, and no dead one that a key waits for; whoever else purges takes other
-- rows; both kinds together are within the limit. Index: outbox_event_done, outbox_event_dead; then primary
-- keys.
-- text purge
with done as materialized (
    select event_id, created_at from sendoff.outbox_event
     where status = 1 and done_at < coalesce($4, now() - $1::interval)
     order by done_at
     limit $2::bigint
       for update skip locked
), dead as materialized (
    select event_id, created_at from sendoff.outbox_event e
     where status = 3 and done_at < coalesce($4, now() - $1::interval)
       and {parks_nothing}
     order by done_at
     limit case when $3::boolean then $2::bigint - (select count(*) from done) else 0 end
       for update skip locked
), old as materialized (
    select * from done union all select * from dead
)
delete from sendoff.outbox_event e
 using old
 where e.event_id = any (array[old.event_id]) and e.created_at = old.created_at
   and e.status in (1, 3)
returning e.status

-- purgeable: how many rows `purge` would forget, delivered and dead, counted up to its limit.
-- Guarantee: reads no more rows than the limit, and those that keys wait for. Index: outbox_event_done,
-- outbox_event_dead; primary key of the keys.
-- text purgeable
with done as materialized (
    select count(*) as found
      from (select from sendoff.outbox_event
             where status = 1 and done_at < coalesce($4, now() - $1::interval)
             limit $2::bigint) over
), dead as materialized (
    select count(*) as found
      from (select from sendoff.outbox_event e
             where status = 3 and done_at < coalesce($4, now() - $1::interval)
               and {parks_nothing}
             limit case when $3::boolean then $2::bigint - (select found from done) else 0 end)
           over
)
select done.found, dead.found from done, dead

-- In a way that is asked for each row: the keys may be many.
-- part parks_nothing
(e.ordering_key is null
 or not exists (select from sendoff.outbox_key k
                 where k.ordering_key = any (array[e.ordering_key]) and k.parked_by = e.event_id))
