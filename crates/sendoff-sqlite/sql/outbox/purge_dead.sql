-- purge_dead: dead rows that ended before the cutoff, the oldest first.
-- Guarantee: reads only, and no payload. Index: outbox_event_dead.
select seq from outbox_event
 where status = 3 and done_at < ?1
 order by done_at
 limit ?2
