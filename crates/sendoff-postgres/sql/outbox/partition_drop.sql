-- partition_drop: a partition that is over, asked about and dropped under one lock.
-- Guarantee: one text, so that whoever sends it and freezes leaves nothing locked (I10). No transaction
-- is under way that wrote to it. Says SD001 where a row is owed a delivery, and SD002 where one is dead
-- and may not go, or a key waits for it. The table first, as every statement does, so that two never wait for each other.
-- Index: the partition's parts of outbox_event_due and outbox_event_dead; outbox_key_parked.
lock table only sendoff.outbox_event in access exclusive mode;
lock table sendoff.outbox_event_partition in access exclusive mode;
do $body$ begin
    if exists (select from sendoff.outbox_event_partition where status in (0, 2)) then
        raise exception 'a row of this partition is pending' using errcode = 'SD001';
    end if;
    if not drop_dead and exists (select from sendoff.outbox_event_partition where status = 3) then
        raise exception 'a row of this partition is dead' using errcode = 'SD002';
    end if;
    if exists (select from sendoff.outbox_key k
                 join sendoff.outbox_event_partition e on e.event_id = k.parked_by and e.status = 3
                where k.parked_by is not null) then
        raise exception 'a key waits for a dead row of this partition' using errcode = 'SD002';
    end if;
end $body$;
drop table sendoff.outbox_event_partition;
commit
