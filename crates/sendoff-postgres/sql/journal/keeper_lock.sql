-- keeper_lock: one maintainer for each journal in partitions, for as long as this session lasts.
-- Guarantee: waits for nobody. Index: none.
select pg_try_advisory_lock(hashtextextended('sendoff partitions sendoff.journal_event', 0))
