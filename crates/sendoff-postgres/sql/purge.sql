-- purge: forget delivered rows, those done first of all first.
-- Guarantee: only DONE rows go; whoever else purges takes other rows. Index: outbox_event_done; then
-- primary key.
with old as materialized (
    select event_id from sendoff.outbox_event
     where status = 1 and done_at < now() - $1::interval
     order by done_at
     limit $2::bigint
       for update skip locked
)
delete from sendoff.outbox_event
 where event_id = any (array(select event_id from old)) and status = 1
returning event_id
