-- advance: moves a cursor.
-- Guarantee: only if this owner leads its pair under this epoch and it is where the move comes from, so
-- that neither an old leader nor a late one undoes what somebody else wrote; a status that an operator
-- set stays. Since when a pair waits at a fact is kept as long as it is the same. Index: primary key.
update journal_cursor
   set last_position = ?7,
       published_at = case when ?8 then ?2 else published_at end,
       error_count = ?9,
       last_error = case when ?9 = 0 or ?10 is not null then ?10 else last_error end,
       waits_at = ?12,
       waits_since = case when ?12 is null then null
                          when ?12 = waits_at then waits_since
                          else ?2 end,
       status = case when ?11 and status = 'ACTIVE' then 'FAILED' else status end,
       heartbeat_at = ?2,
       updated_at = ?2
 where leader = ?1 and topic = ?3 and publisher = ?4 and epoch = ?5 and last_position = ?6
returning status
