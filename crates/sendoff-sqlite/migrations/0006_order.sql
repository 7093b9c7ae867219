-- migration 6: order within a key.
-- Guarantee: runs once, in the transaction that also writes outbox_schema.
--
-- `due_at` of a pending row with a key has two values that are no times: 253339228800000000 (9998-01-01) says
-- that it is in line, and 253370764800000000 (9999-01-01) that it is in line and shelved, out of the way of
-- walks. Only whoever holds its key delivers such a row. Rows with a key that are pending now are put in line
-- as they become due.

-- Keys that somebody holds, that wait for a time, or that are parked behind a dead event. No other key has a
-- row here, and no insert of an event writes any.
create table outbox_key (
    ordering_key text    not null primary key,
    -- When to look at it; while it is held, until when.
    due_at       integer not null,
    -- When it moved last.
    since        integer not null,
    -- With locked_by: the token of whoever holds it.
    taken_at     integer,
    locked_by    text,
    -- The dead event that it waits for.
    parked_by    blob check (length(parked_by) = 16),
    -- How many events its holder may have in work.
    run          integer not null default 0 check (run >= 0),
    -- So many events go alone: a holder vanished with several.
    careful      integer not null default 0 check (careful >= 0),
    -- Holders in a row who vanished with a single event.
    losses       integer not null default 0 check (losses >= 0),
    -- Whether rows are shelved that wait for it.
    shelved      integer not null default 0 check (shelved in (0, 1))
) strict, without rowid;

-- Every look for keys walks this one. What is parked is not in it, however many wait for that.
create index outbox_key_due on outbox_key (due_at) where parked_by is null;

-- Keys whose holder vanished with a single event: few, so that looking for suspects costs nothing.
create index outbox_key_suspect on outbox_key (due_at) where parked_by is null and losses > 0;

-- The pending events of a key, in order. An event without a key is not in it.
create index outbox_event_key on outbox_event (ordering_key, seq)
 where ordering_key is not null and status in (0, 2);

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
       -- A row in line has no time: it is due when its key is.
       case when due_at < 253339228800000000
            then strftime('%Y-%m-%dT%H:%M:%S', (due_at - due_us) / 1000000, 'unixepoch')
                 || printf('.%06dZ', due_us) end as due_at,
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
