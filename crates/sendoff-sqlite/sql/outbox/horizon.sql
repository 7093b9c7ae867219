-- Up to where rows are committed and pending, which of them still are, and how events stand.
-- Guarantee: reads only, and no payload. Index: outbox_event_due, and a plan without it fails.

-- horizon: the last number among all pending rows, NULL if there is none.
-- text horizon
select max(seq) from outbox_event indexed by outbox_event_due where status in (0, 2)

-- pending_within: rows that are pending up to a number (?1), ?3 at most, without those whose delay was not over
-- by a time (?2). Where there are none, all of the index was looked at. What stands behind the payload comes from
-- outbox_event_delayed, and a plan without it fails.
-- text pending_within
select event_id
  from outbox_event indexed by outbox_event_due
 where status in (0, 2) and seq <= ?1
   and seq not in (select seq from outbox_event indexed by outbox_event_delayed
                    where delayed_until > ?2 and status in (0, 2))
 order by due_at, seq
 limit ?3

-- standing: how an event stands, and its last error if it is dead. Index: unique (event_id).
-- text standing
select event_id, status, case when status = 3 then last_error end from outbox_event where event_id = ?1
