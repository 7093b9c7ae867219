-- pending: rows still owed, by status, and when the oldest was created.
-- Index: outbox_event_due, which holds pending rows only, however many were delivered.
select status, count(*), min(created_at)
  from outbox_event indexed by outbox_event_due
 where status in (0, 2)
 group by status
