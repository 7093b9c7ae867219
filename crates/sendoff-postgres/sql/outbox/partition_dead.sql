-- partition_dead: whether a row of this partition is dead.
-- Index: the partition's part of outbox_event_dead.
select exists (select from sendoff.outbox_event_partition where status = 3)
