-- forget_ids: forgets ids of facts in a partition that was taken out, those after a position.
-- Guarantee: an id that was appended again since stays. No row where there are no more.
-- Index: the partition's primary key; primary key of journal_id.
with batch as materialized (
    select event_id, position from sendoff.journal_partition
     where position > after_position
     order by position
     limit most
), forgotten as (
    delete from sendoff.journal_id k
     using batch b
     where k.event_id = b.event_id and k.position = b.position
)
select max(position) from batch having count(*) > 0
