-- lag: since when the oldest of the first :most pending rows has been due for the first time, how many rows
-- these are, when the first of them is due now, and what time it is.
-- Guarantee: bounded by :most rows, in the order of claims, and over what somebody's snapshot keeps in the
-- index; where there are as many as :most, the oldest may be older still. Index: outbox_event_due.
select least(utc_timestamp(6), coalesce(min(coalesce(f.delayed_until, f.created_at)), utc_timestamp(6))),
       count(*), least(utc_timestamp(6), coalesce(min(f.due_at), utc_timestamp(6))), utc_timestamp(6)
  from (select e.created_at, e.delayed_until, e.due_at
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at is not null
         order by e.due_at, e.seq
         limit :most) f
