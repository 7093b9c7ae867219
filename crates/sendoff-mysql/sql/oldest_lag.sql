-- oldest_lag: when the first pending row is or was due, and what time it is.
-- Guarantee: one step in the index. Index: outbox_event_due.
select utc_timestamp(6), due_at
  from sendoff.outbox_event force index (outbox_event_due)
 where due_at is not null
 order by due_at, seq
 limit 1
