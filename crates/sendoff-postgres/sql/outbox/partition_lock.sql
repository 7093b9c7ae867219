-- partition_lock: one maintainer for each table, for as long as this session lasts.
-- Guarantee: waits for nobody. Index: none.
select pg_try_advisory_lock(hashtextextended('sendoff partitions sendoff.outbox_event', 0))
