-- What ends holds.
-- Guarantee of all: a stale token changes nothing; neither does a second settlement, and a terminal row stays as
-- it is. ?3 says what proves the hold: 0 the token ?2, 1 a lock of this very transaction, 2 the hold on its key,
-- which was proved in this transaction: such a row is in line and stays there until it ends. Index: unique
-- (event_id).

-- settle_done: a delivered row, kept. The due time of a terminal row has no meaning and stays.
-- text settle_done
update outbox_event
   set status = 1, done_at = ?4, locked_by = null, losses = 0,
       unavailable_since = null, unroutable_since = null
 where {held}
returning event_type, ordering_key

-- settle_delete: a delivered row, where nothing is kept.
-- text settle_delete
delete from outbox_event
 where {held}
returning event_type, ordering_key

-- settle_retry: a failed delivery that is owed another.
-- text settle_retry
update outbox_event
   set status = 2, due_at = iif(?3 = 2, due_at, ?4), attempts = ?5, last_error = ?6, locked_by = null,
       losses = 0, unavailable_since = null, unroutable_since = null
 where {held}
returning event_type, ordering_key

-- settle_wait: a delivery that waits since ?7, for its target, or for a handler where ?8 says so.
-- text settle_wait
update outbox_event
   set status = 2, due_at = iif(?3 = 2, due_at, ?4), attempts = ?5, last_error = ?6, locked_by = null,
       losses = 0,
       unavailable_since = iif(?8, unavailable_since, coalesce(unavailable_since, ?7)),
       unroutable_since = iif(?8, coalesce(unroutable_since, ?7), null)
 where {held}
returning event_type, ordering_key

-- settle_dead: a delivery that was the last.
-- text settle_dead
update outbox_event
   set status = 3, attempts = ?5, last_error = ?6, locked_by = null, losses = 0, done_at = ?4
 where {held}
returning event_type, ordering_key

-- settle_release: a hold given back untouched: status and attempts stay. A row with a key is in line.
-- text settle_release
update outbox_event
   set due_at = case when ?3 = 2 then due_at when ordering_key is null then ?4 else 253339228800000000 end,
       locked_by = null
 where {held}
returning event_type, ordering_key

-- settle_restore: a hold given back as if it had never been: due when it was.
-- text settle_restore
update outbox_event set due_at = iif(?3 = 2, due_at, ?4), locked_by = null
 where {held}
returning event_type, ordering_key

-- part held
event_id = ?1 and status in (0, 2)
and case ?3 when 0 then due_at = ?2 and locked_by is not null
            when 1 then true
            else due_at >= 253339228800000000 end
