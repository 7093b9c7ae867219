-- rescue: make holds visible that end later than any hold may.
-- Guarantee: delays (no holder) stay as they are; who held the row stays known, so that its loss is
-- counted. Index: outbox_event_due.
update sendoff.outbox_event
   set due_at = now()
 where status in (0, 2) and locked_by is not null and due_at > now() + $1::interval
returning event_id
