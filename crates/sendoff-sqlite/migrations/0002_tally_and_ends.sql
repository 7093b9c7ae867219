-- migration 2: counters of what ended, and the time at which dead rows did.
-- Guarantee: runs once, inside the transaction that also writes outbox_schema.

-- How many events of a type ended in a status: 1 done, 3 dead. Every settlement that ends rows adds
-- to it in its own transaction; forgetting rows takes nothing away.
create table outbox_tally (
    event_type text    not null,
    status     integer not null check (status in (1, 3)),
    count      integer not null,
    primary key (event_type, status)
) strict, without rowid;

-- What cleanup walks when it may forget dead rows too. They are few, and so is this.
create index outbox_event_dead on outbox_event (done_at) where status = 3;

-- From now on done_at is when a row ended; for those that died before, now is the best answer.
update outbox_event set done_at = cast(unixepoch('subsec') * 1000000 as integer)
 where status = 3 and done_at is null;
