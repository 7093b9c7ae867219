-- Forgetting what is kept beside the events, from before ?1.
-- Guarantee of both: at most ?2 rows.

-- forget_seen: what consumers saw, the oldest first. Index: inbox_event_seen; then primary key.
-- text forget_seen
delete from inbox_event
 where (consumer, event_id) in (select consumer, event_id from inbox_event
                                 where seen_at < ?1
                                 order by seen_at
                                 limit ?2)

-- forget_audit: what operators did, in the order of its numbers, which rise with the time: looks at no more entries than
-- ?2, old or not, so that the file is locked for a moment. One that a clock wrote that was ahead (?3 is now) is passed
-- by, and holds back nothing. Index: primary key.
-- text forget_audit
delete from outbox_audit
 where at < ?1
   and seq in (select seq from outbox_audit
                where at < max(?1, ?3)
                order by seq
                limit ?2)
