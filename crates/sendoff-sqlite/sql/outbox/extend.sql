-- extend: a hold that lasts longer.
-- Guarantee: a stale token changes nothing. Index: unique (event_id).
update outbox_event set due_at = ?3
 where event_id = ?1 and due_at = ?2 and status in (0, 2) and locked_by is not null
