-- migration 1: the table, its two indexes, and a view for people.
-- Guarantee: runs once, inside the transaction that also writes outbox_schema.
--
-- Times are microseconds since 1970, in UTC. The payload comes last: a column behind it could only
-- be read by walking the payload's overflow pages.
create table outbox_event (
    seq            integer primary key autoincrement,
    event_id       blob    not null unique check (length(event_id) = 16),
    event_type     text    not null,
    aggregate_type text    not null default '__GLOBAL__',
    aggregate_id   text,
    tenant_id      text,
    ordering_key   text,
    shard          integer not null check (shard between 0 and 63),
    content_type   text    not null default 'application/json',
    status         integer not null default 0 check (status in (0, 1, 2, 3)),
    attempts       integer not null default 0 check (attempts >= 0),
    losses         integer not null default 0 check (losses >= 0),
    occurred_at    integer not null,
    due_at         integer not null,
    created_at     integer not null,
    done_at        integer,
    locked_by      text,
    headers        text,
    last_error     text,
    payload        blob    not null
) strict;

-- Every poll walks this one; delivered rows are not in it, however many are kept.
create index outbox_event_due on outbox_event (due_at, seq) where status in (0, 2);

-- Rows whose holder vanished: few, so that looking for suspects costs nothing.
create index outbox_event_suspect on outbox_event (due_at, seq)
 where status in (0, 2) and losses > 0;

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
            then cast(payload as text) else hex(payload) end as payload
  from readable;
