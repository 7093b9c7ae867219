-- keeper_unlock: the end of `keeper_lock`. Index: none.
select pg_advisory_unlock(hashtextextended('sendoff partitions sendoff.journal_event', 0))
