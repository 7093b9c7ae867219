-- Moving a pair's cursor in the transaction of an effect.

-- move_in: from a position to another, if this owner leads the pair under this epoch.
-- Guarantee: it moves if and only if the caller's transaction commits, and neither an old leader nor a late one
-- undoes what somebody else wrote; a status that an operator set stays. The lock lives in that transaction only (I10),
-- and nobody else moves, takes or gives the pair before its end. A row that somebody has locked is not waited for
-- (3572; on MariaDB 1205). Index: the whole of the primary key, and forced, so that no session locks a gap.
-- text move_in
set @sendoff_moves = null;
select 1 into @sendoff_moves
  from sendoff.journal_cursor c force index (primary)
 where c.topic = :topic and c.publisher = :publisher
   and c.leader = :owner and c.epoch = :epoch and c.last_position = :from
   for update nowait;
update sendoff.journal_cursor c force index (primary)
   set c.last_position = :to, c.error_count = 0, c.last_error = null, c.waits_at = null, c.waits_since = null,
       c.published_at = utc_timestamp(6), c.heartbeat_at = utc_timestamp(6), c.updated_at = utc_timestamp(6)
 where c.topic = :topic and c.publisher = :publisher and @sendoff_moves = 1

-- was_moved_in: whether it was there, and this owner's. Reads no table.
-- text was_moved_in
select @sendoff_moves is not null
