-- lag: since when the oldest of the first :most pending rows has been due for the first time, how many rows
-- these are, when the first is due now that nobody has taken, and what time it is. Rows in line, which are due in a
-- far year that is no time, are looked at beside the others, and count from when they were created; one whose key has
-- an entry is due when that is.
-- Guarantee: bounded by :most rows of each, in the order of claims, and over what somebody's snapshot keeps in the
-- index; where there are as many as :most, the oldest may be older still.
-- Index: outbox_event_due, outbox_key_flows, primary key.
select least(utc_timestamp(6), coalesce(min(coalesce(f.delayed_until, f.created_at)), utc_timestamp(6))),
       greatest(coalesce(sum(f.what = 0), 0), coalesce(sum(f.what = 1), 0)),
       least(utc_timestamp(6), coalesce(min(f.due_at), utc_timestamp(6))), utc_timestamp(6)
  from ((select 0 as what, e.created_at, e.delayed_until, e.due_at
           from sendoff.outbox_event e force index (outbox_event_due)
          where e.due_at < date'9998-01-01'
          order by e.due_at, e.seq
          limit :most)
        union all
        (select 1, l.created_at, l.delayed_until, if(k.ordering_key is null, l.created_at, null)
           from (select e.created_at, e.delayed_until, e.ordering_key
                   from sendoff.outbox_event e force index (outbox_event_due)
                  where e.due_at >= date'9998-01-01'
                  order by e.due_at, e.seq
                  limit :most) l
                left join sendoff.outbox_key k force index (primary) on k.ordering_key = l.ordering_key)
        union all
        (select 2, null, null, k.flows_at
           from sendoff.outbox_key k force index (outbox_key_flows)
          where k.flows_at is not null
          order by k.flows_at
          limit 1)) f
