-- first_due: when the first pending row is due, or now if that is earlier; and what time it is.
-- Guarantee: one step in the index, and over what somebody's snapshot keeps there.
-- Index: outbox_event_due.
select least(now(), (select due_at
                       from sendoff.outbox_event
                      where status in (0, 2)
                      order by due_at, seq
                      limit 1)),
       now()
