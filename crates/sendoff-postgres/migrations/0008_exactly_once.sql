-- migration 8: effects that are made exactly once.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nothing that is there changes.

-- What consumers saw, each by its name. Written in the transaction of the effect, and forgotten by age.
create table sendoff.inbox_event (
    consumer text        collate "C" not null check (char_length(consumer) between 1 and 128),
    event_id uuid        not null,
    seen_at  timestamptz not null default now(),
    primary key (consumer, event_id)
);

-- The oldest first, to be forgotten.
create index inbox_event_seen on sendoff.inbox_event (seen_at);

-- include exactly_once

-- Another text of it: a shorter condition for most events.
-- include sendoff_emit
