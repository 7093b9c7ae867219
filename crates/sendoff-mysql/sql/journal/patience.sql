-- patience: how long this append waits for others, in seconds; what the session had is kept.
-- Index: none.
set @sendoff_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = :seconds
