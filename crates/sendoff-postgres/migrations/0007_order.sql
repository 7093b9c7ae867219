-- migration 7: order within a key.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nodes of the version before go
-- on beside it: rows in line are none of theirs, and they still take the rows with keys that they know of.
--
-- `due_at` has two more values, for rows with a key. They are no times: 9998-01-01 says that a row is in
-- line, and 9999-01-01 that it is in line behind a key that waits, and that nobody needs to look at it.

-- Keys that somebody holds, that wait for a time, or that wait for what becomes of a dead event. Every other
-- key has no row here. Writers of events never touch it.
create table sendoff.outbox_key (
    ordering_key text        collate "C" not null,
    -- When to look at it; while somebody holds it, until when.
    due_at       timestamptz not null,
    -- When it moved last.
    since        timestamptz not null,
    -- When it was taken last: with locked_by, who holds it, the proof of a hold.
    taken_at     timestamptz,
    -- The dead event that it waits for.
    parked_by    uuid,
    -- How many events its holder may have in work.
    run          smallint    not null default 0,
    -- So many go alone: a holder vanished with several.
    careful      smallint    not null default 0,
    -- Holders in a row who vanished with a single event.
    losses       smallint    not null default 0,
    -- Whether rows were shelved behind it.
    shelved      boolean     not null default false,
    locked_by    text,
    constraint outbox_key_pkey primary key (ordering_key)
) with (
    -- Short rows that come, change twice and go: room for the next version beside each of them.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000
);

-- What is looked at next; parked keys are not in it, however many there are.
create index outbox_key_due on sendoff.outbox_key (due_at) where parked_by is null;

-- What is parked, the longest first.
create index outbox_key_parked on sendoff.outbox_key (since) where parked_by is not null;

-- The rows of a key that are owed a delivery, in order. Rows without a key are not in it. On a table that is
-- in use it was made before, without keeping writers waiting: `create index concurrently`, for each partition
-- by itself where there are any.
do $body$ begin
    if to_regclass('sendoff.outbox_event_key') is null then
        create index outbox_event_key on sendoff.outbox_event (ordering_key collate "C", seq)
         where ordering_key is not null and status in (0, 2);
    end if;
end $body$;

-- A row in line is due at no time.
create or replace view sendoff.outbox_event_json as
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       attempts, losses, occurred_at,
       case when due_at between '9998-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' then null
            else due_at end as due_at,
       created_at, done_at, last_error, locked_by, headers, content_type,
       case when content_type ilike '%json%' or content_type ilike 'text/%'
            then sendoff.outbox_text(payload) else encode(payload, 'hex') end as payload,
       unavailable_since, unroutable_since, delayed_until
  from sendoff.outbox_event;

-- include sendoff_emit

-- include outbox_keys
