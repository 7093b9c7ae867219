-- migration 4: what waits and since when, what operators did, and what they paused.
-- Guarantee: may run again, as every step here. Nodes of the version before go on beside it: they leave
-- the new columns as they are.

-- Since when a row waits, uncounted: for a target that is unavailable, and for a node that has a handler
-- for it. NULL while it does not. `delayed_until` is when a delayed row first became due; NULL for every
-- other row, which was due when it was created.
set @sendoff_step = if(
    exists (select 1 from information_schema.columns
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_event'
               and column_name = 'delayed_until'),
    'do 0',
    'alter table sendoff_prefixoutbox_event
       add column unavailable_since datetime(6) null,
       add column unroutable_since  datetime(6) null,
       add column delayed_until     datetime(6) null,
       algorithm = instant');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;

-- What operators did: to an event, or to what is delivered at all. Written in the transaction that does it.
create table if not exists sendoff.outbox_audit (
    seq        bigint       not null auto_increment,
    at         datetime(6)  not null,
    action     varchar(16)  not null,
    actor      varchar(255) not null,
    reason     text         not null,
    -- The event as it was, or what was paused.
    event_id   binary(16)   null,
    event_type varchar(128) null,
    attempts   int unsigned null,
    last_error text         null,
    subject    varchar(255) null,
    primary key (seq),
    key outbox_audit_event (event_id),
    constraint outbox_audit_action check (action in ('requeue', 'discard', 'pause', 'resume'))
) engine = InnoDB
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- What is not delivered for now. Scope 0: everything, under no name; 1: an event type; 2: a handler.
create table if not exists sendoff.outbox_pause (
    scope  tinyint unsigned not null,
    name   varchar(255)     not null default '',
    since  datetime(6)      not null,
    actor  varchar(255)     not null,
    reason text             not null,
    primary key (scope, name),
    constraint outbox_pause_scope check (scope in (0, 1, 2) and (scope = 0) = (name = ''))
) engine = InnoDB
  -- Names compare exactly, as in the outbox itself.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create or replace view sendoff.outbox_event_json as
select seq,
       lower(concat_ws('-', substr(hex(event_id), 1, 8), substr(hex(event_id), 9, 4),
                       substr(hex(event_id), 13, 4), substr(hex(event_id), 17, 4),
                       substr(hex(event_id), 21))) as event_id,
       event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
       case status when 0 then 'NEW' when 1 then 'DONE' when 2 then 'RETRY' else 'DEAD' end
           as status,
       attempts, losses, occurred_at, due_at, created_at, done_at, last_error, locked_by, headers,
       content_type,
       case when content_type like '%json%' or content_type like 'text/%'
            then convert(payload using utf8mb4) else hex(payload) end as payload,
       unavailable_since, unroutable_since, delayed_until
  from sendoff.outbox_event;
