-- settle_delete: a delivered row, where nothing is kept.
-- Guarantee: a stale token deletes nothing. Index: unique (event_id).
delete from outbox_event
 where event_id = ?1 and status in (0, 2) and (?3 or due_at = ?2 and locked_by is not null)
returning event_type
