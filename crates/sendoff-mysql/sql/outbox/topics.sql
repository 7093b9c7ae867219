-- topics: events by type and status; the last column says how many of them are held.
-- Guarantee: looks at pending rows and at counters, never at delivered rows.
-- Index: outbox_event_due; the counters are a handful, and their parts are folded now and then.
select event_type, status, count(*),
       cast(sum(locked_by is not null and due_at > utc_timestamp(6)) as signed)
  from sendoff.outbox_event force index (outbox_event_due)
 where due_at is not null
 group by event_type, status
union all
select event_type, status, count, 0 from sendoff.outbox_tally
union all
select event_type, status, cast(sum(count) as unsigned), 0 from sendoff.outbox_tally_delta
 group by event_type, status
 order by 1, 2
