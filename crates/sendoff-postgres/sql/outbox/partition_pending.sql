-- partition_pending: whether a row of this partition is owed a delivery.
-- Index: the partition's part of outbox_event_due.
select exists (select from sendoff.outbox_event_partition where status in (0, 2))
