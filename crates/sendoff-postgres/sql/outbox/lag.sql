-- lag: since when the oldest of the first $1 pending rows has been due for the first time, how many rows
-- these are, since when the next has been due that nobody has taken, and what time it is.
-- Guarantee: bounded by $1 rows, in the order of claims, and over what somebody's snapshot keeps in the
-- index; where there are as many as $1, the oldest may be older still. A row in line has been due since it was
-- created: the first of them is looked at in any case, and counts as not taken where its key is not listed, or
-- is due. Index: outbox_event_due; outbox_key_due and primary key of the keys.
with first as materialized (
    select created_at, delayed_until, due_at
      from sendoff.outbox_event
     where status in (0, 2)
     order by due_at, seq
     limit $1::bigint
), in_line as materialized (
    select e.created_at,
           exists (select from sendoff.outbox_key k where k.ordering_key = any (array[e.ordering_key])) as listed
      from (select created_at, ordering_key
              from sendoff.outbox_event
             where status in (0, 2) and due_at = '9998-01-01 00:00:00Z'
             order by due_at, seq
             limit 1) e
), listed as materialized (
    select due_at
      from sendoff.outbox_key
     where parked_by is null and due_at <= now()
     order by due_at
     limit 1
)
select least(now(), (select min(coalesce(delayed_until, created_at)) from first),
             (select created_at from in_line)),
       (select count(*) from first),
       least(now(), (select min(due_at) from first), (select due_at from listed),
             (select created_at from in_line where not listed)),
       now()
