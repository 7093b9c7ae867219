-- first_due: when the first pending row is due, or now if that is earlier; and what time it is.
-- Guarantee: one step in the index, and over what somebody's snapshot keeps there.
-- Index: outbox_event_due.
select least(utc_timestamp(6),
             coalesce((select due_at
                         from sendoff.outbox_event force index (outbox_event_due)
                        where due_at is not null
                        order by due_at, seq
                        limit 1), utc_timestamp(6))),
       utc_timestamp(6)
