-- journal migration 1: the log, its tags, what appends lock, and how far the log has no gap.
-- Guarantee: every step may run again. MySQL commits each of them by itself, so that a migration may
-- stop half-way; the next one repeats what was done and goes on.

create table if not exists sendoff.journal_event (
    -- Whoever has a lower number took it earlier. Numbers that were taken and rolled back become rows
    -- without a fact, of which nothing is set but the time: voids. Tails make them.
    position       bigint       not null auto_increment,
    event_id       binary(16)   null,
    -- All times are UTC, whatever the zone of a session: a DATETIME has none.
    occurred_at    datetime(6)  null,
    recorded_at    datetime(6)  not null,
    correlation_id binary(16)   null,
    causation_id   binary(16)   null,
    event_type     varchar(128) null,
    content_type   varchar(128) null,
    -- A JSON array of texts.
    tags           mediumtext   null,
    headers        mediumtext   null,
    payload        mediumblob   null,
    primary key (position),
    unique key journal_event_id (event_id),
    key journal_event_type (event_type, position),
    check (event_id is null
           or (occurred_at is not null and event_type is not null and content_type is not null
               and tags is not null and payload is not null))
) engine = InnoDB
  -- Names compare exactly: case, accents and trailing spaces count.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- A row for each tag of each fact. Its key is all it has: what a condition asks of a tag's history
-- since a position is one step down this tree, however long the history is.
create table if not exists sendoff.journal_tag (
    tag      varchar(193) not null,
    position bigint       not null,
    primary key (tag, position)
) engine = InnoDB
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- What appends and decisions lock. They never change, and there are always as many.
create table if not exists sendoff.journal_anchor (
    slot smallint unsigned not null primary key
) engine = InnoDB;

insert ignore into sendoff.journal_anchor (slot)
with digit (n) as (
    select 0 union all select 1 union all select 2 union all select 3 union all select 4
    union all select 5 union all select 6 union all select 7 union all select 8 union all select 9
    union all select 10 union all select 11 union all select 12 union all select 13
    union all select 14 union all select 15
)
select a.n + 16 * b.n + 256 * c.n from digit a cross join digit b cross join digit c;

-- Every number up to here is a row: a tail that begins now has to look from here on only.
create table if not exists sendoff.journal_floor (
    one      tinyint unsigned not null primary key,
    position bigint           not null
) engine = InnoDB;

insert ignore into sendoff.journal_floor (one, position) values (1, 0);
