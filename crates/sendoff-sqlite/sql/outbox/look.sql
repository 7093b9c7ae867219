-- look: the rows that became visible last, and those that were put in line last, by their numbers; and the keys
-- that became due last, by when they did, below zero.
-- Guarantee: reads only, and takes no lock that a writer wants. No more than ?2 of each.
-- Index: outbox_event_due and outbox_key_due, from their ends, covering, and a plan without them fails.
-- text look
select * from (select seq from outbox_event indexed by outbox_event_due
                where status in (0, 2) and due_at <= ?1
                order by due_at desc, seq desc
                limit ?2)
union all
select * from (select seq from outbox_event indexed by outbox_event_due
                where status in (0, 2) and due_at = 253339228800000000
                order by seq desc
                limit ?2)
union all
select * from (select -due_at from outbox_key indexed by outbox_key_due
                where parked_by is null and due_at <= ?1
                order by due_at desc
                limit ?2)

-- next_due: when the next row becomes visible by itself, or the next key is due.
-- Index: outbox_event_due and outbox_key_due, covering, and a plan without them fails.
-- text next_due
select min(due_at)
  from (select * from (select due_at from outbox_event indexed by outbox_event_due
                        where status in (0, 2) and due_at > ?1 and due_at < 253339228800000000
                        order by due_at, seq
                        limit 1)
        union all
        select * from (select due_at from outbox_key indexed by outbox_key_due
                        where parked_by is null and due_at > ?1
                        order by due_at
                        limit 1))
