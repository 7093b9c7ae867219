-- oldest_lag: when the first pending row is or was due, and what time it is.
-- Guarantee: one step in the index. Index: outbox_event_due.
select now() as asked_at, due_at
  from sendoff.outbox_event
 where status in (0, 2)
 order by due_at, seq
 limit 1
