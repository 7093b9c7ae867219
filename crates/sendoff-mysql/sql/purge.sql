-- purge: lock delivered rows to be forgotten, those done first of all first.
-- Guarantee: only DONE rows go; whoever else purges takes other rows. Index: outbox_event_aside.
start transaction;
select event_id
  from sendoff.outbox_event force index (outbox_event_aside)
 where aside = 1 and aside_at < utc_timestamp(6) - interval :older_than microsecond
 order by aside_at, seq
 limit :limit
   for update skip locked
