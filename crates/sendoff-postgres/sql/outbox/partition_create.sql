-- partition_create: a partition of its own for a range, with the rows of the tail that lie in it.
-- Guarantee: follows, in one text, on what locks the table and its tail (I10), so no row is between the
-- two, and none is written to the tail any more that belongs here. Says SD003 where more rows would
-- move than may. Attached, not created in place, which would lock out every reader of the table.
-- Index: outbox_event_pmax_created.
do $body$ begin
    if (select count(*)
          from (select from sendoff.outbox_event_pmax
                 where created_at >= 'range_from' and created_at < 'range_to'
                 limit most_moved + 1) found) > most_moved then
        raise exception 'too many rows would move' using errcode = 'SD003';
    end if;
end $body$;
create table sendoff.outbox_event_partition (
    like sendoff.outbox_event including all excluding identity
);
alter table sendoff.outbox_event_partition set (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.05
);
with moved as (
    delete from sendoff.outbox_event_pmax
     where created_at >= 'range_from' and created_at < 'range_to'
    returning *
)
insert into sendoff.outbox_event_partition select * from moved;
alter table sendoff.outbox_event attach partition sendoff.outbox_event_partition
    for values from ('range_from') to ('range_to');
commit
