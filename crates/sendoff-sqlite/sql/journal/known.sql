-- known: the fact of this id, if it is there, and whether it is the same.
-- Index: unique event_id.
select position, recorded_at,
       event_type = ?2 and tags = ?3 and content_type = ?4 and payload = ?5
  from journal_event
 where event_id = ?1
