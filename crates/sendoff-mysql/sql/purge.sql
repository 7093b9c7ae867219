-- purge: lock terminal rows of one kind (1 delivered, 3 dead) to be forgotten, those that ended first
-- of all first.
-- Guarantee: only terminal rows go; whoever else purges takes other rows. Index: outbox_event_aside.
select event_id
  from sendoff.outbox_event force index (outbox_event_aside)
 where aside = :kind and aside_at < utc_timestamp(6) - interval :older_than microsecond
 order by aside_at, seq
 limit :limit
   for update skip locked
