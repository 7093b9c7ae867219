-- What ends holds.
-- Guarantee of all: a stale token changes nothing, unless the row is locked by this very transaction; neither
-- does a second settlement, and a terminal row stays as it is. Index: unique (event_id).

-- settle_done: a delivered row, kept. The due time of a terminal row has no meaning and stays.
-- text settle_done
update outbox_event
   set status = 1, done_at = ?3, locked_by = null, losses = 0,
       unavailable_since = null, unroutable_since = null
 where {pending} and (?4 or due_at = ?2 and locked_by is not null)
returning event_type

-- settle_delete: a delivered row, where nothing is kept.
-- text settle_delete
delete from outbox_event
 where {pending} and (?3 or due_at = ?2 and locked_by is not null)
returning event_type

-- settle_retry: a failed delivery that is owed another.
-- text settle_retry
update outbox_event
   set status = 2, due_at = ?3, attempts = ?4, last_error = ?5, locked_by = null, losses = 0,
       unavailable_since = null, unroutable_since = null
 where {pending} and (?6 or due_at = ?2 and locked_by is not null)
returning event_type

-- settle_wait: a delivery that waits since ?7, for its target, or for a handler where ?8 says so.
-- text settle_wait
update outbox_event
   set status = 2, due_at = ?3, attempts = ?4, last_error = ?5, locked_by = null, losses = 0,
       unavailable_since = iif(?8, unavailable_since, coalesce(unavailable_since, ?7)),
       unroutable_since = iif(?8, coalesce(unroutable_since, ?7), null)
 where {pending} and (?6 or due_at = ?2 and locked_by is not null)
returning event_type

-- settle_dead: a delivery that was the last.
-- text settle_dead
update outbox_event
   set status = 3, attempts = ?3, last_error = ?4, locked_by = null, losses = 0, done_at = ?5
 where {pending} and (?6 or due_at = ?2 and locked_by is not null)
returning event_type

-- settle_release: a hold given back untouched: status and attempts stay.
-- text settle_release
update outbox_event set due_at = ?3, locked_by = null
 where {pending} and (?4 or due_at = ?2 and locked_by is not null)
returning event_type

-- part pending
event_id = ?1 and status in (0, 2)
