-- partition_lock_ahead: what making a partition for the future needs.
-- Guarantee: writers go on, since none of them writes to the tail; polls wait for the commit.
lock table only sendoff.outbox_event in share update exclusive mode;
lock table sendoff.outbox_event_pmax in access exclusive mode;
