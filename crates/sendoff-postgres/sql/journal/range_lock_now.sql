-- range_lock_now: what making a partition for positions of now or before needs.
-- Guarantee: no append is under way that chose the tail because the partition was not there yet, and
-- would be refused by it afterwards. One statement, so that one time limit holds for all its locks.
lock table only sendoff.journal_table, only sendoff.journal_table_pmax in access exclusive mode;
