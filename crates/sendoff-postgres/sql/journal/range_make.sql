-- range_make: a partition of its own for a range, with the rows of the tail that lie in it.
-- Guarantee: runs in the transaction that locked the table and its tail, so no row is between the
-- two, and none is written to the tail any more that belongs here. Attached, not created in place,
-- which would lock out everybody. Index: primary key of journal_event_pmax, (position) of
-- journal_tag_pmax.
create table sendoff.journal_table_partition (
    like sendoff.journal_table including all excluding identity
);
alter table sendoff.journal_table_partition set (autovacuum_vacuum_insert_scale_factor = 0.05);
with moved as (
    delete from sendoff.journal_table_pmax
     where position >= range_from and position < range_to
    returning *
)
insert into sendoff.journal_table_partition select * from moved;
alter table sendoff.journal_table attach partition sendoff.journal_table_partition
    for values from (range_from) to (range_to);
