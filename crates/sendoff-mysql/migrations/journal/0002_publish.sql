-- journal migration 2: where publishers are, what they set aside, and the nodes that publish.
-- Guarantee: every step may run again.

-- How far each publisher is with each topic.
create table if not exists sendoff.journal_cursor (
    topic         varchar(128) not null,
    publisher     varchar(128) not null,
    last_position bigint       not null default 0,
    status        varchar(8)   not null default 'ACTIVE',
    error_count   bigint       not null default 0,
    last_error    mediumtext   null,
    leader        varchar(255) null,
    epoch         bigint       not null default 0,
    -- All times are UTC, whatever the zone of a session: a DATETIME has none.
    heartbeat_at  datetime(6)  null,
    published_at  datetime(6)  null,
    updated_at    datetime(6)  not null default (utc_timestamp(6)),
    primary key (topic, publisher),
    check (last_position >= 0),
    check (status in ('ACTIVE', 'PAUSED', 'FAILED')),
    check (error_count >= 0)
) engine = InnoDB
  -- Names compare exactly: case, accents and trailing spaces count.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- What a publisher could not deliver and was set aside.
create table if not exists sendoff.journal_parked (
    topic     varchar(128) not null,
    publisher varchar(128) not null,
    position  bigint       not null,
    parked_at datetime(6)  not null default (utc_timestamp(6)),
    next_at   datetime(6)  null,
    attempts  bigint       not null default 0,
    error     mediumtext   null,
    primary key (topic, publisher, position),
    key journal_parked_next (topic, publisher, next_at),
    check (attempts >= 0)
) engine = InnoDB
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- A node that publishes. Pairs are led by nodes, and a node says for all of them that it is alive: the
-- cost of leading does not grow with the pairs.
create table if not exists sendoff.journal_node (
    owner        varchar(255) not null primary key,
    -- The lock that its session holds (GET_LOCK); none where it got none.
    lock_name    varchar(64)  null,
    started_at   datetime(6)  not null,
    heartbeat_at datetime(6)  not null,
    -- In microseconds.
    renew        bigint       not null,
    lease        bigint       not null,
    -- Keys of the pairs it has publishers for, as a JSON array.
    knows        mediumtext   not null
) engine = InnoDB
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
