-- look: the rows that became visible last, and when the next one will.
-- Guarantee: reads only, and takes no lock that a writer wants. No more than ?2 rows.
-- Index: outbox_event_due, from its end, covering, and a plan without it fails.
-- text look
select seq from outbox_event indexed by outbox_event_due
 where status in (0, 2) and due_at <= ?1
 order by due_at desc, seq desc
 limit ?2

-- next_due: when the next row becomes visible by itself. Index: outbox_event_due, covering.
-- text next_due
select due_at from outbox_event indexed by outbox_event_due
 where status in (0, 2) and due_at > ?1
 order by due_at, seq
 limit 1
