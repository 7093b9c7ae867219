-- migration 1: the outbox, its indexes, and a view for people.
-- Guarantee: every step may run again. MySQL commits each of them by itself, so that a migration may
-- stop half-way; the next one repeats what was done and goes on.

create table if not exists sendoff.outbox_event (
    event_id       binary(16)        not null,
    -- Order comes from the database, not from its clients' clocks.
    seq            bigint            not null auto_increment,
    -- All times are UTC, whatever the zone of a session: a DATETIME has none.
    occurred_at    datetime(6)       not null,
    -- NULL when the row is terminal: that is what keeps terminal rows out of the way of polls.
    due_at         datetime(6)       null,
    created_at     datetime(6)       not null,
    done_at        datetime(6)       null,
    attempts       int unsigned      not null default 0,
    status         tinyint unsigned  not null default 0,
    shard          tinyint unsigned  not null,
    losses         smallint unsigned not null default 0,
    event_type     varchar(128)      not null,
    aggregate_type varchar(64)       not null default '__GLOBAL__',
    aggregate_id   varchar(128)      null,
    tenant_id      varchar(64)       null,
    ordering_key   varchar(128)      null,
    content_type   varchar(128)      not null default 'application/json',
    locked_by      varchar(255)      null,
    last_error     text              null,
    headers        mediumtext        null,
    payload        mediumblob        not null,
    -- Rows that polls leave alone, by kind: 0 a suspect, 1 delivered, 3 dead. NULL, and never changed,
    -- for every other row.
    aside          tinyint unsigned  generated always as
                       (case when status in (1, 3) then status when losses > 0 then 0 end) stored,
    aside_at       datetime(6)       generated always as
                       (case when status in (1, 3) then done_at when losses > 0 then due_at end) stored,
    primary key (sendoff_key),
    key outbox_event_seq (seq),
    -- Every poll walks this one. Terminal rows stand together at its other end, however many are kept.
    key outbox_event_due (due_at, seq),
    -- What looks for suspects and what forgets delivered rows walk this one.
    key outbox_event_aside (aside, aside_at, seq),
    constraint outbox_event_status check (status in (0, 1, 2, 3)),
    constraint outbox_event_pending check ((status in (0, 2)) = (due_at is not null)),
    constraint outbox_event_shard check (shard between 0 and 63)sendoff_payload_check
) engine = InnoDB
  -- Names compare exactly: case, accents and trailing spaces count.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */sendoff_partitions;

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
            then convert(payload using utf8mb4) else hex(payload) end as payload
  from sendoff.outbox_event;
