-- settle_dead: a delivery that was the last.
-- Guarantee: a stale token changes nothing; a terminal row stays as it is.
-- Index: unique (event_id).
update outbox_event
   set status = 3, attempts = ?3, last_error = ?4, locked_by = null, losses = 0, done_at = ?5
 where event_id = ?1 and status in (0, 2) and (?6 or due_at = ?2 and locked_by is not null)
returning event_type
