-- journal migration 3: how far facts were let go.
-- Guarantee: every step may run again.

-- Every number up to here was decided, and its row may be gone: what is missing here is no gap. It rises
-- in the transaction that deletes.
create table if not exists sendoff.journal_gone (
    one      tinyint unsigned not null primary key,
    position bigint           not null
) engine = InnoDB;

insert ignore into sendoff.journal_gone (one, position) values (1, 0);
