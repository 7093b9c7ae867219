-- schema: the outbox as designed, and the application's own table beside it.
-- Guarantee: for an empty database.
create table outbox_event (
    event_id       uuid        not null primary key,
    seq            bigint      not null generated always as identity (cache 1),
    occurred_at    timestamptz not null,
    due_at         timestamptz not null,
    created_at     timestamptz not null,
    done_at        timestamptz,
    attempts       integer     not null default 0,
    status         smallint    not null default 0,
    shard          smallint    not null,
    event_type     text        not null,
    aggregate_type text        not null default '__GLOBAL__',
    aggregate_id   text,
    tenant_id      text,
    ordering_key   text,
    content_type   text        not null default 'application/json',
    locked_by      text,
    last_error     text,
    headers        jsonb,
    payload        bytea       not null
);
create index outbox_event_due on outbox_event (due_at, seq) where status in (0, 2);
