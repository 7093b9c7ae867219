-- move_in: moves a pair's cursor in the transaction of an effect, and says so in a row.
-- Guarantee: it moves if and only if the caller's transaction commits, only if this owner leads the pair under this
-- epoch, and from where it is: neither an old leader nor a late one undoes what somebody else wrote. A status that an
-- operator set stays. The lock is the file's, and lives in that transaction only (I10). Index: primary key.
update journal_cursor
   set last_position = ?7,
       published_at = ?2,
       error_count = 0,
       last_error = null,
       waits_at = null,
       waits_since = null,
       heartbeat_at = ?2,
       updated_at = ?2
 where leader = ?1 and topic = ?3 and publisher = ?4 and epoch = ?5 and last_position = ?6
returning 1
