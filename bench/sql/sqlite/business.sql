-- business: the application's own table.
create table bench_order (
    id       integer primary key,
    customer integer not null,
    total    integer not null
) strict
