-- purgeable: how many rows of one kind `purge` would forget, counted up to its limit.
-- Guarantee: reads no more rows than the limit. Index: outbox_event_aside.
select count(*)
  from (select 1 from sendoff.outbox_event force index (outbox_event_aside)
         where aside = :kind and aside_at < :cutoff
         limit :limit) found
