-- migration 3: what waits and since when, what operators did, and what they paused.
-- Guarantee: runs once, inside the transaction that also writes outbox_schema.

-- Since when a row waits, uncounted: for a target that is unavailable, and for a node that has a handler
-- for it. NULL while it does not. `delayed_until` is when a delayed row first became due; NULL for every
-- other row, which was due when it was created. They stand behind the payload: who reads them without it
-- takes them from an index.
alter table outbox_event add column unavailable_since integer;
alter table outbox_event add column unroutable_since integer;
alter table outbox_event add column delayed_until integer;

-- Which pending rows were delayed, for whoever asks how late the oldest is. An insert without a delay adds
-- nothing to it.
create index outbox_event_delayed on outbox_event (delayed_until)
 where delayed_until is not null and status in (0, 2);

-- What operators did: to an event, or to what is delivered at all. Written in the transaction that does it.
create table outbox_audit (
    seq        integer primary key autoincrement,
    at         integer not null,
    action     text    not null check (action in ('requeue', 'discard', 'pause', 'resume')),
    actor      text    not null,
    reason     text    not null,
    -- The event as it was, or what was paused.
    event_id   blob,
    event_type text,
    attempts   integer,
    last_error text,
    subject    text
) strict;

create index outbox_audit_event on outbox_audit (event_id) where event_id is not null;

-- What is not delivered for now. Scope 0: everything, under no name; 1: an event type; 2: a handler.
create table outbox_pause (
    scope  integer not null check (scope in (0, 1, 2)),
    name   text    not null default '',
    since  integer not null,
    actor  text    not null,
    reason text    not null,
    primary key (scope, name),
    check ((scope = 0) = (name = ''))
) strict, without rowid;

drop view outbox_event_json;
create view outbox_event_json as
with readable as (
    select *, hex(event_id) as hex,
           -- Microseconds of the second, counted upwards before 1970 too.
           (occurred_at % 1000000 + 1000000) % 1000000 as occurred_us,
           (due_at % 1000000 + 1000000) % 1000000      as due_us,
           (created_at % 1000000 + 1000000) % 1000000  as created_us,
           (done_at % 1000000 + 1000000) % 1000000     as done_us
      from outbox_event
)
select seq,
       lower(substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-' || substr(hex, 13, 4) || '-'
             || substr(hex, 17, 4) || '-' || substr(hex, 21)) as event_id,
       event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       attempts, losses,
       strftime('%Y-%m-%dT%H:%M:%S', (occurred_at - occurred_us) / 1000000, 'unixepoch')
           || printf('.%06dZ', occurred_us) as occurred_at,
       strftime('%Y-%m-%dT%H:%M:%S', (due_at - due_us) / 1000000, 'unixepoch')
           || printf('.%06dZ', due_us) as due_at,
       strftime('%Y-%m-%dT%H:%M:%S', (created_at - created_us) / 1000000, 'unixepoch')
           || printf('.%06dZ', created_us) as created_at,
       strftime('%Y-%m-%dT%H:%M:%S', (done_at - done_us) / 1000000, 'unixepoch')
           || printf('.%06dZ', done_us) as done_at,
       last_error, locked_by, headers, content_type,
       -- Only what says that it is text is shown as text; other bytes as hexadecimal digits.
       case when content_type like '%json%' or content_type like 'text/%'
            then cast(payload as text) else hex(payload) end as payload,
       strftime('%Y-%m-%dT%H:%M:%fZ', unavailable_since / 1000000.0, 'unixepoch') as unavailable_since,
       strftime('%Y-%m-%dT%H:%M:%fZ', unroutable_since / 1000000.0, 'unixepoch') as unroutable_since,
       strftime('%Y-%m-%dT%H:%M:%fZ', delayed_until / 1000000.0, 'unixepoch') as delayed_until
  from readable;
