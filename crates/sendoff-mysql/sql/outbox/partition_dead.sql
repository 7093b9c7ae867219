-- partition_dead: whether a row of this partition is dead. Index: outbox_event_aside.
select exists (select 1 from sendoff.outbox_event partition (:partition) where aside = 3)
