-- once: remember that a consumer saw an event; the second time it fails (1062).
-- Guarantee: where another transaction is open that saw the same, it waits for that one's end, as long as the
-- session waits for a row lock. Index: primary key.
insert into sendoff.inbox_event (consumer, event_id, seen_at) values (:consumer, :id, utc_timestamp(6))
