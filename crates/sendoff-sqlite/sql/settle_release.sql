-- settle_release: a hold given back untouched.
-- Guarantee: a stale token changes nothing; status and attempts stay. Index: unique (event_id).
update outbox_event set due_at = ?3, locked_by = null
 where event_id = ?1 and status in (0, 2) and (?4 or due_at = ?2 and locked_by is not null)
returning event_type
