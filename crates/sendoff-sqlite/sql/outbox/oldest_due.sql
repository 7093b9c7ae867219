-- oldest_due: when the first pending row is or was due.
-- Guarantee: one step in the index. Index: outbox_event_due, covering.
select due_at from outbox_event indexed by outbox_event_due
 where status in (0, 2)
 order by due_at, seq
 limit 1
