-- purge_find: facts between two positions, recorded before a time, the lowest first.
-- Index: primary key.
select position, tags from journal_event
 where position > ?1 and position <= ?2 and (?3 is null or recorded_at < ?3)
 order by position
 limit ?4
