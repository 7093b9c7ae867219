-- search_type: positions of facts of this type, the lowest first. Index: journal_event_type.
select position from journal_event
 where event_type = ?1 and position > ?2 and position <= ?3
 order by position
 limit ?4
