-- partition_drop: forget a partition with its rows. The session has the table locked, and has asked
-- under that lock whether they are over.
alter table sendoff.outbox_event drop partition :partition
