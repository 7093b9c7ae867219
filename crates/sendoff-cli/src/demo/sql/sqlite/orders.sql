-- orders: the shop's own table, and the truth about what was committed.
-- Guarantee: an order is here if and only if its transaction committed.
create table if not exists orders (
    number      integer primary key,
    event_id    blob    not null unique,
    -- What was written, for the checker: a number that stands for the event's content.
    digest      integer not null,
    customer    text    not null,
    total_cents integer not null
) strict
