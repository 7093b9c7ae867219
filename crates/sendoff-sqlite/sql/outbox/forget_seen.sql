-- forget_seen: forget what consumers saw before ?1, the oldest first.
-- Guarantee: at most ?2 rows. Index: inbox_event_seen; then primary key.
delete from inbox_event
 where (consumer, event_id) in (select consumer, event_id from inbox_event
                                 where seen_at < ?1
                                 order by seen_at
                                 limit ?2)
