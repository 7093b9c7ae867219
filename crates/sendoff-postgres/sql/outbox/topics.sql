-- topics: events by type and status; the last column says how many of them are held.
-- Guarantee: looks at pending rows and at counters, never at delivered rows. What settlements have
-- counted and nobody has folded yet is in it.
-- Index: outbox_event_due; the counters are a handful.
select event_type collate "C" as event_type, status, count(*),
       count(*) filter (where locked_by is not null and due_at > now())
  from sendoff.outbox_event
 where status in (0, 2)
 group by 1, 2
union all
select event_type, status, sum(count)::bigint, 0
  from (select event_type, status, count from sendoff.outbox_tally
        union all
        select event_type, status, count from sendoff.outbox_tally_delta) ended
 group by 1, 2
 order by 1, 2
