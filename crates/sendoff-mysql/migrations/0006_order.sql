-- migration 6: order within a key.
-- Guarantee: may run again, as every step here. Nodes of the version before go on beside it: they never see a
-- row that is in line, because that is due in 9998, and what they write with a key is put in line when it is
-- found. `due_at` has two values that are no times: 9998-01-01 says that a row is in line, and only whoever
-- holds its key may deliver it; 9999-01-01 says the same of one that nobody need look at for now (shelved).

-- The keys that somebody holds, that wait for a time, or that wait for what becomes of a dead event. Every
-- other key has no row here.
create table if not exists sendoff.outbox_key (
    ordering_key varchar(128)      not null,
    -- When to look at it; while it is held, until when.
    due_at       datetime(6)       not null,
    -- When it moved last.
    since        datetime(6)       not null,
    -- With locked_by the token of whoever holds it.
    taken_at     datetime(6)       null,
    locked_by    varchar(255)      null,
    -- The dead event that it waits for.
    parked_by    binary(16)        null,
    -- The most events that were given out with the hold.
    run          int unsigned      not null default 0,
    -- So many events go alone, because a holder vanished with more than one.
    careful      int unsigned      not null default 0,
    -- Holders in a row who vanished with a single event.
    losses       smallint unsigned not null default 0,
    -- Whether rows were shelved: only a look at them may remove it.
    shelved      tinyint unsigned  not null default 0,
    -- When to look at it, unless it is parked; and the same of what may be a suspect.
    flows_at     datetime(6)       generated always as (case when parked_by is null then due_at end) virtual,
    suspect_at   datetime(6)       generated always as
                     (case when parked_by is null and losses > 0 then due_at end) virtual,
    primary key (ordering_key),
    key outbox_key_flows (flows_at),
    key outbox_key_suspect (suspect_at),
    key outbox_key_parked (parked_by)
) engine = InnoDB
  -- Keys compare exactly, as in the outbox itself.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- The key of a row that is not over, for the index of what is to come of each key, in order. Both servers
-- write a table in partitions anew for such a column, and writers wait for that; any other is left as it is.
set @sendoff_step = if(
    exists (select 1 from information_schema.columns
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_event'
               and column_name = 'live_key'),
    'do 0',
    'alter table sendoff_prefixoutbox_event
       add column live_key varchar(128) generated always as
           (case when status in (0, 2) then ordering_key end) virtualsendoff_instant');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;

set @sendoff_step = if(
    exists (select 1 from information_schema.statistics
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_event'
               and index_name = 'outbox_event_key'),
    'do 0',
    'alter table sendoff_prefixoutbox_event
       add key outbox_event_key (live_key, seq), algorithm = inplace, lock = none');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;

create or replace view sendoff.outbox_event_json as
select seq,
       lower(concat_ws('-', substr(hex(event_id), 1, 8), substr(hex(event_id), 9, 4),
                       substr(hex(event_id), 13, 4), substr(hex(event_id), 17, 4),
                       substr(hex(event_id), 21))) as event_id,
       event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       -- A row in line is due when its key is.
       attempts, losses, occurred_at, case when due_at < timestamp'9998-01-01 00:00:00' then due_at end as due_at,
       created_at, done_at, last_error, locked_by, headers, content_type,
       case when content_type like '%json%' or content_type like 'text/%'
            then convert(payload using utf8mb4) else hex(payload) end as payload,
       unavailable_since, unroutable_since, delayed_until
  from sendoff.outbox_event;
