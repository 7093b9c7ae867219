-- migration 3: counters that no two settlements share, and events that are as durable as they look.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nodes of the version
-- before go on beside it: they count in outbox_tally itself.

-- What settlements counted and nobody has added up yet: appended, never changed, deleted by whoever
-- folds it into outbox_tally. Settlements of several nodes have no row in common.
create table sendoff.outbox_tally_delta (
    event_type text     collate "C" not null,
    status     smallint not null,
    count      bigint   not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000
);

-- When something of this type ended last, as far as it was folded: a type of which nothing ended for
-- a long time is forgotten, or the table would grow with every type there ever was.
alter table sendoff.outbox_tally add column ended_at timestamptz not null default now();

-- include sendoff_emit
