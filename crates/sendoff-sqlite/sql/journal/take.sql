-- take: takes a pair that stands as it was seen and whose leader is not alive.
-- Guarantee: each time of leading has an epoch of its own, and whoever had the pair before can move
-- nothing any more. Index: primary keys.
-- text take
update journal_cursor
   set leader = ?1, epoch = epoch + 1, heartbeat_at = ?2, updated_at = ?2
 where topic = ?3 and publisher = ?4 and leader is ?5 and epoch = ?6
   and not exists (select 1 from journal_node n
                    where n.owner = journal_cursor.leader and abs(?2 - n.heartbeat_at) < n.lease)
returning topic, publisher, last_position, status, error_count, substr(last_error, 1, 500), leader,
          epoch, published_at, waits_at, waits_since

-- give: gives a pair up that this owner has under this epoch. Index: primary key.
-- text give
update journal_cursor set leader = null, heartbeat_at = null, updated_at = ?2
 where leader = ?1 and topic = ?3 and publisher = ?4 and epoch = ?5
