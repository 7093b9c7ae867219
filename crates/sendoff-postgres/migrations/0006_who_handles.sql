-- migration 6: who handles what; and functions that cost less.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nodes of the version before go
-- on beside it.

-- Kinds of events that some node has a handler for, and when one last said so. Under no aggregate type:
-- whatever they are about; under no event type either: all there are.
create table sendoff.outbox_handled (
    aggregate_type text        collate "C" not null,
    event_type     text        collate "C" not null,
    seen_at        timestamptz not null,
    constraint outbox_handled_pkey primary key (aggregate_type, event_type)
);

-- include sendoff_emit
