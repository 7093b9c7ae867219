-- change: an operator's change of pairs: PAUSE, RESUME, RESET, or another position.
-- Guarantee: whoever leads them finds it at the next round, and cannot write over another position.
-- Index: primary key; there is a row for each pair.
update journal_cursor
   set status = case when ?4 = 'PAUSE' then 'PAUSED'
                     when ?4 = 'RESET' then 'ACTIVE'
                     when ?4 = 'RESUME' and status = 'PAUSED' then 'ACTIVE'
                     else status end,
       error_count = case when ?4 = 'RESET' then 0 else error_count end,
       last_error = case when ?4 = 'RESET' then null else last_error end,
       waits_at = case when ?4 in ('RESET', 'MOVE') then null else waits_at end,
       waits_since = case when ?4 in ('RESET', 'MOVE') then null else waits_since end,
       last_position = coalesce(?5, last_position),
       updated_at = ?1
 where (?2 is null or topic = ?2) and (?3 is null or publisher = ?3)
