-- migration 7: effects that are made exactly once.
-- Guarantee: may run again, as every step here. Nothing that is there changes.

-- What consumers saw, each by its name. Written in the transaction of the effect, and forgotten by age.
create table if not exists sendoff.inbox_event (
    consumer varchar(128) not null,
    event_id binary(16)   not null,
    seen_at  datetime(6)  not null,
    primary key (consumer, event_id),
    -- The oldest first, to be forgotten.
    key inbox_event_seen (seen_at)
) engine = InnoDB
  -- Names compare exactly.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
