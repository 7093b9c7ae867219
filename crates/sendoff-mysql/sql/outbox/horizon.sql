-- Up to where rows are committed and pending, and which of them still are.
-- Guarantee: plain reads, which wait for nobody, and read no payload. Index: outbox_event_due.

-- horizon: the last number among all pending rows, NULL if there is none; and what time it is.
-- Guarantee: what is committed before and pending has no higher one.
-- text horizon
select max(e.seq), utc_timestamp(6)
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at is not null

-- pending_within: rows that are pending up to a number, :limit at most, without those whose delay was not over by
-- a time. Where there are none, all of the index was looked at.
-- text pending_within
select e.event_id
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at is not null and e.seq <= :seq
   and (e.delayed_until is null or e.delayed_until <= :at)
 order by e.due_at, e.seq
 limit :limit
