-- range_lock_old: what taking a partition out needs.
-- Guarantee: no transaction is under way that wrote to it. The table first, as every statement does,
-- so that two never wait for each other. One statement, so that one time limit holds for all its locks.
lock table only sendoff.journal_table, only sendoff.journal_table_pmax,
           only sendoff.journal_table_partition in access exclusive mode;
