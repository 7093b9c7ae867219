-- topics: events by type and status; the last column says how many of them are held.
-- Guarantee: looks at pending rows and at counters, never at delivered rows.
-- Index: outbox_event_due, and a plan without it fails; the counters are a handful.
select event_type, status, count(*), sum(locked_by is not null and due_at > ?1)
  from outbox_event indexed by outbox_event_due
 where status in (0, 2)
 group by 1, 2
union all
select event_type, status, count, 0 from outbox_tally
 order by 1, 2
