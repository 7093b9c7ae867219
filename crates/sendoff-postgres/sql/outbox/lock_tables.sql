-- lock_tables: what the settlement of a locked batch will need of its tables, before the batch is read.
-- Guarantee: nothing is delivered that could not be settled. Reading rows for update is allowed beside
-- whoever keeps writers out (an index that is being built, a lock in share mode); the settlement would
-- wait for that in vain, and the same rows would be delivered again and again. Partitions are locked
-- with their table. Index: none.
lock table sendoff.outbox_event, sendoff.outbox_tally_delta, sendoff.outbox_key in row exclusive mode
