-- lag: since when the oldest of the first $1 pending rows has been due for the first time, how many rows
-- these are, when the first of them is due now, and what time it is.
-- Guarantee: bounded by $1 rows, in the order of claims, and over what somebody's snapshot keeps in the
-- index; where there are as many as $1, the oldest may be older still. Index: outbox_event_due.
select least(now(), min(coalesce(delayed_until, created_at))), count(*),
       least(now(), min(due_at)), now()
  from (select created_at, delayed_until, due_at
          from sendoff.outbox_event
         where status in (0, 2)
         order by due_at, seq
         limit $1::bigint) first
