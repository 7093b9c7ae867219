-- purgeable: how many facts there are between two positions, recorded before a time, counted up to a
-- limit. Index: primary key.
select count(*)
  from (select 1 from journal_event
         where position > ?1 and position <= ?2 and (?3 is null or recorded_at < ?3)
         limit ?4)
