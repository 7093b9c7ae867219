-- migration 1: the outbox, its indexes, the bell, a view for people, a function for other languages.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. A line that ends with the
-- name of a layout in brackets is for that layout only.

create table sendoff.outbox_event (
    event_id       uuid        not null,
    -- From a sequence without a cache: order comes from the database, not from its clients' clocks.
    seq            bigint      not null generated always as identity (cache 1),
    occurred_at    timestamptz not null,
    due_at         timestamptz not null,
    created_at     timestamptz not null,
    done_at        timestamptz,
    attempts       integer     not null default 0,
    status         smallint    not null default 0,
    shard          smallint    not null,
    losses         smallint    not null default 0,
    event_type     text        not null,
    aggregate_type text        not null default '__GLOBAL__',
    aggregate_id   text,
    tenant_id      text,
    ordering_key   text,
    content_type   text        not null default 'application/json',
    locked_by      text,
    last_error     text,
    headers        jsonb,
    payload        bytea       not null,
    constraint outbox_event_pkey primary key (event_id),             -- [flat]
    constraint outbox_event_pkey primary key (event_id, created_at), -- [partitioned]
    constraint outbox_event_status check (status in (0, 1, 2, 3)),
    constraint outbox_event_attempts check (attempts >= 0),
    constraint outbox_event_losses check (losses >= 0),
    constraint outbox_event_shard check (shard between 0 and 63)
)
partition by range (created_at)                                      -- [partitioned]
;

-- A payload is written once and rarely read: compressing it is work for nothing.
alter table sendoff.outbox_event alter column payload set storage external;

-- A queue turns over quickly. The default waits for a fifth of the table, delivered rows included,
-- before dead entries at the front of the index are swept away.
alter table sendoff.outbox_event set (                               -- [flat]
    autovacuum_vacuum_scale_factor = 0.02,                           -- [flat]
    autovacuum_vacuum_insert_scale_factor = 0.2,                     -- [flat]
    autovacuum_analyze_scale_factor = 0.05                           -- [flat]
);                                                                   -- [flat]

-- Every poll walks this one; delivered rows are not in it, however many are kept.
create index outbox_event_due on sendoff.outbox_event (due_at, seq) where status in (0, 2);

-- Rows whose holder vanished: few, so that looking for suspects costs nothing.
create index outbox_event_suspect on sendoff.outbox_event (due_at, seq)
 where status in (0, 2) and losses > 0;

-- What retention walks. Empty where delivered rows are deleted, and then it costs nothing.
create index outbox_event_done on sendoff.outbox_event (done_at) where status = 1;

-- The tail: rows that no other partition is there for. The index tells quickly whether it has any. -- [partitioned]
create table sendoff.outbox_event_pmax partition of sendoff.outbox_event default;  -- [partitioned]
create index outbox_event_pmax_created on sendoff.outbox_event_pmax (created_at);  -- [partitioned]
alter table sendoff.outbox_event_pmax set (                          -- [partitioned]
    autovacuum_vacuum_scale_factor = 0.02,                           -- [partitioned]
    autovacuum_vacuum_insert_scale_factor = 0.2,                     -- [partitioned]
    autovacuum_analyze_scale_factor = 0.05                           -- [partitioned]
);                                                                   -- [partitioned]

-- 2 while the relay sleeps and wants to be rung for, 1 otherwise. A sequence, because every writer
-- looks at it: its value is read by a function, at a fraction of what a row would cost.
create sequence sendoff.outbox_bell minvalue 1 maxvalue 2;
select setval('sendoff.outbox_bell', 1);

-- Wakes the relay, if it sleeps.
create function sendoff.outbox_ring(wanted boolean) returns boolean
language plpgsql volatile as $body$
begin
    if wanted and pg_sequence_last_value('sendoff.outbox_bell') = 2 then
        perform pg_notify('sendoff_channel', '');
        return true;
    end if;
    return false;
end
$body$;

-- What `insert_one` calls where it is not in a transaction of ours.
create function sendoff.outbox_no_transaction() returns boolean
language plpgsql volatile as $body$
begin
    raise exception 'no transaction begun by the outbox is open'
        using errcode = 'no_active_sql_transaction',
              hint = 'default_transaction_deferrable must be off, and a transaction begun by the '
                     'outbox must be ended by it';
end
$body$;

-- Text where the bytes are text, escapes where they are not: one odd payload must not break the view.
create function sendoff.outbox_text(payload bytea) returns text
language plpgsql stable strict as $body$
begin
    return convert_from(payload, 'UTF8');
exception when others then
    return encode(payload, 'escape');
end
$body$;

create view sendoff.outbox_event_json as
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       attempts, losses, occurred_at, due_at, created_at, done_at, last_error, locked_by, headers,
       content_type,
       case when content_type ilike '%json%' or content_type ilike 'text/%'
            then sendoff.outbox_text(payload) else encode(payload, 'hex') end as payload
  from sendoff.outbox_event;

-- include sendoff_emit
