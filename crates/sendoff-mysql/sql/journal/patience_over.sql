-- patience_over: puts back what journal_patience changed. Index: none.
set session innodb_lock_wait_timeout = @sendoff_wait
