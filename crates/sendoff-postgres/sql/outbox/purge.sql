-- purge: forget delivered rows, and dead ones when asked ($3), those that ended first of all first:
-- before a moment ($4), or longer ago than an age ($1) where it is null.
-- Guarantee: only terminal rows go; whoever else purges takes other rows; both kinds together are
-- within the limit. Index: outbox_event_done, outbox_event_dead; then primary key.
with done as materialized (
    select event_id, created_at from sendoff.outbox_event
     where status = 1 and done_at < coalesce($4, now() - $1::interval)
     order by done_at
     limit $2::bigint
       for update skip locked
), dead as materialized (
    select event_id, created_at from sendoff.outbox_event
     where status = 3 and done_at < coalesce($4, now() - $1::interval)
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
