-- migration 2: counters of what ended, and the time at which dead rows did.
-- Guarantee: runs once, in the transaction that also writes outbox_schema.

-- How many events of a type ended in a status: 1 done, 3 dead. Every settlement that ends rows adds
-- to it in its own transaction; forgetting rows takes nothing away.
create table sendoff.outbox_tally (
    event_type text     collate "C" not null,
    status     smallint not null,
    count      bigint   not null,
    constraint outbox_tally_pkey primary key (event_type, status),
    constraint outbox_tally_status check (status in (1, 3))
) with (
    -- Few rows that change all the time: room for the next version beside each of them.
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000
);

-- What operators page through, and cleanup walks when it may forget dead rows too. They are few, and so is
-- this. On a table that is
-- in use it was made before, without keeping writers waiting, and even asking for it would lock them out.
do $body$ begin
    if to_regclass('sendoff.outbox_event_dead') is null then
        create index outbox_event_dead on sendoff.outbox_event (done_at, seq) where status = 3;
    end if;
end $body$;

-- From now on done_at is when a row ended; for those that died before, now is the best answer.
update sendoff.outbox_event set done_at = now() where status = 3 and done_at is null;
