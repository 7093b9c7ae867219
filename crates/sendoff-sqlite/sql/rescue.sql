-- rescue: make holds visible that end later than any hold may.
-- Guarantee: delays (no holder) stay as they are; who held the row stays known, so that its loss is
-- counted. Index: outbox_event_due.
update outbox_event set due_at = ?1
 where status in (0, 2) and locked_by is not null and due_at > ?2
