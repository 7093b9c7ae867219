-- migration 4: what waits and since when, what operators did, and what they paused.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nodes of the version before go
-- on beside it: they leave the new columns as they are.

-- Since when a row waits, uncounted: for a target that is unavailable, and for a node that has a handler
-- for it. NULL while it does not. `delayed_until` is when a delayed row first became due; NULL for every
-- other row, which was due when it was created.
alter table sendoff.outbox_event
    add column unavailable_since timestamptz,
    add column unroutable_since  timestamptz,
    add column delayed_until     timestamptz;

-- What operators did: to an event, or to what is delivered at all. Written in the transaction that does it.
create table sendoff.outbox_audit (
    seq        bigint      not null generated always as identity,
    at         timestamptz not null default now(),
    action     text        not null,
    actor      text        not null,
    reason     text        not null,
    -- The event as it was, or what was paused.
    event_id   uuid,
    event_type text,
    attempts   integer,
    last_error text,
    subject    text,
    constraint outbox_audit_pkey primary key (seq),
    constraint outbox_audit_action check (action in ('requeue', 'discard', 'pause', 'resume'))
);

create index outbox_audit_event on sendoff.outbox_audit (event_id) where event_id is not null;

-- What is not delivered for now. Scope 0: everything, under no name; 1: an event type; 2: a handler.
create table sendoff.outbox_pause (
    scope  smallint    not null,
    name   text        collate "C" not null default '',
    since  timestamptz not null default now(),
    actor  text        not null,
    reason text        not null,
    constraint outbox_pause_pkey primary key (scope, name),
    constraint outbox_pause_scope check (scope in (0, 1, 2) and (scope = 0) = (name = ''))
);

create or replace view sendoff.outbox_event_json as
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       attempts, losses, occurred_at, due_at, created_at, done_at, last_error, locked_by, headers,
       content_type,
       case when content_type ilike '%json%' or content_type ilike 'text/%'
            then sendoff.outbox_text(payload) else encode(payload, 'hex') end as payload,
       unavailable_since, unroutable_since, delayed_until
  from sendoff.outbox_event;

-- include sendoff_emit
