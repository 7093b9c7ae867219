-- settle_done: a delivered row, kept.
-- Guarantee: a stale token changes nothing; neither does a second settlement. The due time of a
-- terminal row has no meaning and stays. Index: unique (event_id).
update outbox_event set status = 1, done_at = ?3, locked_by = null, losses = 0
 where event_id = ?1 and status in (0, 2) and (?4 or due_at = ?2 and locked_by is not null)
returning event_type
