-- partition_pending: whether a row of this partition is owed a delivery. Terminal rows have no due
-- time. Index: outbox_event_due.
select exists (select 1 from sendoff.outbox_event partition (:partition) where due_at is not null)
