-- range_lock_ahead: what making a partition for later positions needs.
-- Guarantee: appends go on, since none of them writes to the tail; who reads waits for the commit.
lock table only sendoff.journal_table in share update exclusive mode;
lock table only sendoff.journal_table_pmax in access exclusive mode;
