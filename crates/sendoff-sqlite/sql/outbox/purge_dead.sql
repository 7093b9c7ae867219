-- purge_dead: dead rows that ended before the cutoff, the oldest first, save those that park a key.
-- Guarantee: reads only, and no payload. Index: outbox_event_dead; then the primary key of outbox_key.
select seq from outbox_event e
 where status = 3 and done_at < ?1
   and not exists (select 1 from outbox_key k
                    where k.ordering_key = e.ordering_key and k.parked_by = e.event_id)
 order by done_at
 limit ?2
