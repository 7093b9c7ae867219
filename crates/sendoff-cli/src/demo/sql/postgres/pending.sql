-- pending: rows still owed, by status, and for how many microseconds the oldest has been there.
-- Index: outbox_event_due, which holds pending rows only, however many were delivered.
select status::bigint, count(*),
       (extract(epoch from clock_timestamp() - min(created_at)) * 1000000)::bigint
  from sendoff_demo.outbox_event
 where status in (0, 2)
 group by status
