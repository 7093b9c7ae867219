-- partition_lock: nobody else reads or writes the table until it is unlocked.
-- Guarantee: no transaction is under way that wrote to it: the server waits for those.
lock tables sendoff.outbox_event write
