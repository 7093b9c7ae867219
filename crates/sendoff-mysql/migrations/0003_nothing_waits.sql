-- migration 3: counters that no two settlements share.
-- Guarantee: may run again, as every step here. Nodes of the version before go on beside it: they count
-- in outbox_tally itself.

-- What settlements counted and nobody has added up yet: appended, never changed, deleted by whoever
-- folds it into outbox_tally. Settlements of several nodes have no row in common.
create table if not exists sendoff.outbox_tally_delta (
    -- Drawn by the settlement: a table without a key cannot be replicated everywhere.
    part       bigint           not null,
    event_type varchar(128)     not null,
    status     tinyint unsigned not null,
    count      bigint unsigned  not null,
    primary key (part, event_type, status)
) engine = InnoDB
  -- Types compare exactly, as in the outbox itself.
  default character set utf8mb4
  collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- When something of this type ended last, as far as it was folded: a type of which nothing ended for a
-- long time is forgotten, or the table would grow with every type there ever was.
set @sendoff_step = if(
    exists (select 1 from information_schema.columns
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_tally'
               and column_name = 'ended_at'),
    'do 0',
    'alter table sendoff_prefixoutbox_tally
       add column ended_at datetime(6) not null default current_timestamp(6), lock = none');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;
