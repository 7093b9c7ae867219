-- business: the application's own table.
-- Guarantee: for an empty database.
create table bench_order (
    id       bigint not null auto_increment primary key,
    customer bigint not null,
    total    bigint not null
) engine = InnoDB
