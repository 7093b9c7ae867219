-- partition_unlock: the end of `partition_lock`. Index: none.
select pg_advisory_unlock(hashtextextended('sendoff partitions sendoff.outbox_event', 0))
