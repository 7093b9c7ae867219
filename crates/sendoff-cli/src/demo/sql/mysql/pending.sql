-- pending: rows still owed, by status, and for how many microseconds the oldest has been there.
-- Index: outbox_event_due, where terminal rows have no due time.
select status, count(*), timestampdiff(microsecond, min(created_at), utc_timestamp(6))
  from sendoff_demo_outbox_event
 where due_at is not null
 group by status
