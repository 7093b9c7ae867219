-- make: the demo's own schema, the shop's table, which is the truth about what was committed, and the
-- handler's record of what it received.
-- Guarantee: all of it or nothing, and never into a schema that is there: the comment marks it as the demo's.
create schema sendoff_demo;
comment on schema sendoff_demo is 'sendoff demo';
create table sendoff_demo.orders (
    number      bigint  primary key,
    event_id    bytea   not null unique,
    -- What was written, for the checker: a number that stands for the event's content.
    digest      bigint  not null,
    customer    text    not null,
    total_cents bigint  not null
);
create table sendoff_demo.deliveries (
    number   bigint generated always as identity primary key,
    event_id bytea  not null,
    run      bigint not null,
    attempt  bigint not null,
    digest   bigint not null
);
