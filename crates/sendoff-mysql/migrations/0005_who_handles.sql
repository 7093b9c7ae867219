-- migration 5: who handles what.
-- Guarantee: every step may run again. Nodes of the version before go on beside it.

-- Kinds of events that some node has a handler for, and when one last said so. Under no aggregate type:
-- whatever they are about; under no event type either: all there are.
create table if not exists sendoff.outbox_handled (
    aggregate_type varchar(64)  not null,
    event_type     varchar(128) not null,
    seen_at        datetime(6)  not null,
    primary key (aggregate_type, event_type)
) engine = InnoDB
  -- Names compare exactly, as in the outbox itself.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
