-- migration 4: who handles what.
-- Guarantee: runs once, in the transaction that also writes outbox_schema.

-- Kinds of events that some node has a handler for, and when one last said so. Under no aggregate type:
-- whatever they are about; under no event type either: all there are.
create table outbox_handled (
    aggregate_type text    not null,
    event_type     text    not null,
    seen_at        integer not null,
    primary key (aggregate_type, event_type)
) strict, without rowid;
