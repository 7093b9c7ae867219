-- Up to where rows are committed and pending, and which of them still are.
-- Guarantee: reads only, and no payload. Index: outbox_event_due.

-- horizon: the last number among all pending rows, NULL if there is none; and what time it is.
-- Guarantee: what is committed before and pending has no higher one.
-- text horizon
select max(seq), now() from sendoff.outbox_event where status in (0, 2)

-- pending_within: rows that are pending up to a number ($1), $3 at most, without those whose delay was not over
-- by a time ($2). Where there are none, all of the index was looked at.
-- text pending_within
select event_id
  from sendoff.outbox_event
 where status in (0, 2) and seq <= $1::bigint
   and (delayed_until is null or delayed_until <= $2::timestamptz)
 order by due_at, seq
 limit $3::bigint
