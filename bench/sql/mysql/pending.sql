-- pending: whether any row is still owed a delivery, held or not. Index: outbox_event_due.
select exists (select 1 from outbox_event where due_at is not null)
