-- partition_lock_present: what making a partition for the present or the past needs.
-- Guarantee: no writer is under way who chose the tail because the partition was not there yet, and
-- who would be refused by it afterwards.
lock table only sendoff.outbox_event in access exclusive mode;
lock table sendoff.outbox_event_pmax in access exclusive mode;
