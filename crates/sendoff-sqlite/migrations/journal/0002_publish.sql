-- journal migration 2: the nodes that publish.
-- Guarantee: runs once, inside the transaction that also writes journal_schema.
--
-- Pairs are led by nodes, and a node says for all of them that it is alive: the cost of leading does
-- not grow with the pairs. A file has no sessions, so only silence for a whole lease is a death.
create table journal_node (
    owner        text    not null primary key,
    started_at   integer not null,
    heartbeat_at integer not null,
    -- In microseconds.
    lease        integer not null check (lease > 0),
    -- Keys of the pairs it has publishers for, as a JSON array.
    knows        text    not null
) strict, without rowid;

create index journal_parked_due on journal_parked (topic, publisher, next_at)
 where next_at is not null
