-- migration 2: counters of what ended.
-- Guarantee: may run again, as every step here.

-- How many events of a type ended in a status: 1 done, 3 dead. Every settlement that ends rows adds to
-- it in its own transaction; forgetting rows takes nothing away.
create table if not exists sendoff.outbox_tally (
    event_type varchar(128)     not null,
    status     tinyint unsigned not null,
    count      bigint unsigned  not null,
    primary key (event_type, status)
) engine = InnoDB
  -- Types compare exactly, as in the outbox itself.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
