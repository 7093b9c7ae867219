-- partition_drop: forget a partition with its rows. Sent within `partition_end`.
alter table sendoff.outbox_event drop partition :partition
