-- make_orders: the shop's table, and the truth about what was committed.
-- Guarantee: never a table that is there: the comment marks it as the demo's.
create table sendoff_demo_orders (
    number      bigint       not null primary key,
    event_id    binary(16)   not null unique,
    -- What was written, for the checker: a number that stands for the event's content.
    digest      bigint       not null,
    customer    varchar(100) not null,
    total_cents bigint       not null
) engine = InnoDB, comment = 'sendoff demo'
