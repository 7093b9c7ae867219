-- arm: from now on writers ring.
-- Guarantee: writes only when the flag changes; seen by everybody at once. Index: none.
select setval('sendoff.outbox_bell', 2) where pg_sequence_last_value('sendoff.outbox_bell') = 1
