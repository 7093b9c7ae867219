-- make_deliveries: the handler's record of what it received.
create table if not exists sendoff_demo_deliveries (
    number   bigint     not null auto_increment primary key,
    event_id binary(16) not null,
    run      bigint     not null,
    attempt  bigint     not null,
    digest   bigint     not null
) engine = InnoDB, comment = 'sendoff demo'
