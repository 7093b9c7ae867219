-- rescue: make holds visible that end later than any hold may.
-- Guarantee: delays (no holder) stay as they are; who held the row stays known, so that its loss is
-- counted. Index: outbox_event_due.
update sendoff.outbox_event e force index (outbox_event_due)
   set e.due_at = utc_timestamp(6)
 where e.locked_by is not null and e.due_at > utc_timestamp(6) + interval :longest microsecond
