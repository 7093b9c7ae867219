-- purgeable: how many rows `purge` would forget, delivered and dead, counted up to its limit.
-- Guarantee: reads no more rows than the limit. Index: outbox_event_done, outbox_event_dead.
with done as materialized (
    select count(*) as found
      from (select from sendoff.outbox_event
             where status = 1 and done_at < coalesce($4, now() - $1::interval)
             limit $2::bigint) over
), dead as materialized (
    select count(*) as found
      from (select from sendoff.outbox_event
             where status = 3 and done_at < coalesce($4, now() - $1::interval)
             limit case when $3::boolean then $2::bigint - (select found from done) else 0 end)
           over
)
select done.found, dead.found from done, dead
