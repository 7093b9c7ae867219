-- migration 7: effects that are made exactly once.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nothing that is there changes.

-- What consumers saw, each by its name. Written in the transaction of the effect, and forgotten by age.
create table inbox_event (
    consumer text    not null check (length(consumer) between 1 and 128),
    event_id blob    not null check (length(event_id) = 16),
    seen_at  integer not null,
    primary key (consumer, event_id)
) strict, without rowid;

-- The oldest first, to be forgotten.
create index inbox_event_seen on inbox_event (seen_at);
