-- purgeable: how many facts between two positions are old enough to go, counted up to a limit.
-- Index: primary key.
select count(*)
  from (select 1 from sendoff.journal_event e force index (primary)
         where e.position > :after and e.position <= :up_to and e.event_id is not null
           and coalesce(e.recorded_at < :before, 1)
         limit :limit) found
