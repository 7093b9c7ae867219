-- disarm: writers need not ring.
-- Guarantee: writes only when the flag changes; seen by everybody at once. There is one flag for all nodes, so the others
-- are told: whoever of them sleeps arms it again, or they would not be rung for until they looked by themselves,
-- should this node be stopped before it does. Index: none.
select setval('sendoff.outbox_bell', 1), pg_notify('sendoff_channel', 'disarmed')
 where pg_sequence_last_value('sendoff.outbox_bell') = 2
