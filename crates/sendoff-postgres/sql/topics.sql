-- topics: events by type and status; the last column says how many of them are held.
-- Guarantee: looks at pending rows and at counters, never at delivered rows.
-- Index: outbox_event_due; the counters are a handful.
select event_type collate "C" as event_type, status, count(*),
       count(*) filter (where locked_by is not null and due_at > now())
  from sendoff.outbox_event
 where status in (0, 2)
 group by 1, 2
union all
select event_type, status, count, 0 from sendoff.outbox_tally
 order by 1, 2
