-- settle_retry: a failed delivery that is owed another.
-- Guarantee: a stale token changes nothing; neither does a second settlement.
-- Index: unique (event_id).
update outbox_event
   set status = 2, due_at = ?3, attempts = ?4, last_error = ?5, locked_by = null, losses = 0
 where event_id = ?1 and status in (0, 2) and (?6 or due_at = ?2 and locked_by is not null)
returning event_type
