-- search_all: positions of all facts, the lowest first. Index: primary key.
select position from journal_event
 where position > ?1 and position <= ?2
 order by position
 limit ?3
