-- partition_lock_old: what dropping a partition needs.
-- Guarantee: no transaction is under way that wrote to it. The table first, as every statement does,
-- so that two never wait for each other.
lock table only sendoff.outbox_event in access exclusive mode;
lock table sendoff.outbox_event_partition in access exclusive mode;
