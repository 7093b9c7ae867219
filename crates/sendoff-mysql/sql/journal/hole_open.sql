-- hole_open: begins to close a run: a void after its end, at :end, and what says that it is
-- closed, which is committed by journal_hole_close.
-- Guarantee: the void keeps the lock on the gap away from rows of others. The second insert waits for
-- transactions above READ COMMITTED that have appended and are open, because their look for closed
-- numbers locks the place where this one goes. Index: primary keys.
insert ignore into sendoff.journal_event (position, recorded_at) values (:end, utc_timestamp(6));
set transaction isolation level repeatable read;
start transaction;
insert into sendoff.journal_hole (first_position, last_position, closed_at)
values (:first, :last, utc_timestamp(6))
on duplicate key update first_position = least(first_position, values(first_position))
