-- partition_moving: how many rows of the tail belong to a partition that ends at :until. Scans the
-- tail, which is bounded by then.
select count(*) from sendoff.outbox_event partition (pmax) where created_at < :until
