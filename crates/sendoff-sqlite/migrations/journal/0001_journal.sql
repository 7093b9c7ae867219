-- journal migration 1: the log, its tags, and where publishers are.
-- Guarantee: runs once, inside the transaction that also writes journal_schema.
--
-- There is one writer at a time, so positions are in the order of commits, and what is rolled back
-- leaves no gap. Times are microseconds since 1970, in UTC.
create table journal_event (
    position       integer primary key autoincrement,
    event_id       blob    not null unique check (length(event_id) = 16),
    event_type     text    not null,
    content_type   text    not null,
    occurred_at    integer not null,
    recorded_at    integer not null,
    correlation_id blob    check (length(correlation_id) = 16),
    causation_id   blob    check (length(causation_id) = 16),
    tags           text    not null,
    headers        text,
    payload        blob    not null
) strict;

create index journal_event_type on journal_event (event_type, position);

-- A row for each tag of each fact; its key is all it has.
create table journal_tag (
    tag      text    not null,
    position integer not null,
    primary key (tag, position)
) strict, without rowid;

create table journal_cursor (
    topic         text    not null,
    publisher     text    not null,
    last_position integer not null default 0 check (last_position >= 0),
    status        text    not null default 'ACTIVE' check (status in ('ACTIVE', 'PAUSED', 'FAILED')),
    error_count   integer not null default 0 check (error_count >= 0),
    last_error    text,
    leader        text,
    epoch         integer not null default 0,
    heartbeat_at  integer,
    published_at  integer,
    updated_at    integer not null default 0,
    primary key (topic, publisher)
) strict, without rowid;

create table journal_parked (
    topic     text    not null,
    publisher text    not null,
    position  integer not null,
    parked_at integer not null,
    next_at   integer,
    attempts  integer not null default 0 check (attempts >= 0),
    error     text,
    primary key (topic, publisher, position)
) strict, without rowid
