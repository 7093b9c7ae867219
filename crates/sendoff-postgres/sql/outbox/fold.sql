-- fold: adds up what settlements counted, and forgets types of which nothing ended for a long time.
-- Guarantee: every count is in `topics` once, before and after. One folds at a time, and whoever
-- finds another at it does nothing ($1: at most so many parts; $2: how long a type is remembered).
-- Takes nothing that a settlement needs. Index: none on the parts, which are few between two folds;
-- primary key.
with alone as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('sendoff fold sendoff.outbox_tally', 0))
           as granted
), parts as materialized (
    select ctid from sendoff.outbox_tally_delta
     where (select granted from alone)
     limit $1::bigint
       for update skip locked
), taken as (
    delete from sendoff.outbox_tally_delta
     where ctid = any (array(select ctid from parts))
    returning event_type, status, count
), forgotten as (
    delete from sendoff.outbox_tally t
     where (select granted from alone) and t.ended_at < now() - $2::interval
       and not exists (select from taken k
                        where k.event_type = t.event_type and k.status = t.status)
), folded as (
    insert into sendoff.outbox_tally as t (event_type, status, count)
    select event_type, status, sum(count) from taken
     group by event_type, status
     order by event_type, status
    on conflict (event_type, status) do update
       set count = t.count + excluded.count, ended_at = now()
)
select count(*) from taken
