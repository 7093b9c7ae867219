-- partition_create: split the tail: what was created before :until goes to the new partition.
-- Guarantee: one statement, which the server carries out whole or not at all; writers wait for it.
alter table sendoff.outbox_event reorganize partition pmax into (
    partition :partition values less than (:until),
    partition pmax values less than (maxvalue)
)
