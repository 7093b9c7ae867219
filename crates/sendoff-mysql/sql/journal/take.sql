-- Who leads pairs, of those that journal_hold_cursors has; others stay as they are. Index: primary key.
-- Texts in the list have their character set, or they would have the database's, whichever that is.

-- take: takes pairs that stand as they were seen and whose leader is not alive.
-- Guarantee: each time of leading has an epoch of its own, and whoever had the pair before can move
-- nothing any more. Who is alive is what journal_nodes says.
--
-- give: gives pairs up that this owner has under this epoch.
-- text take, give
update json_table(:pairs, '$[*]' columns (nth for ordinality,
                                          topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p',
                                          leader varchar(255) character set utf8mb4 path '$.l',  -- [take]
                                          epoch bigint path '$.e')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
   set c.leader = :owner, c.epoch = c.epoch + 1, c.heartbeat_at = utc_timestamp(6),  -- [take]
   set c.leader = null, c.heartbeat_at = null,                                       -- [give]
       c.updated_at = utc_timestamp(6)
 where find_in_set(w.nth, @sendoff_held)
   and c.leader = :owner and c.epoch = w.epoch  -- [give]
   and {as_seen}                                -- [take]

-- part as_seen
c.epoch = w.epoch and c.leader <=> w.leader collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
and (c.leader is null or not exists (
     select 1 from sendoff.journal_node n
      where n.owner = c.leader
        and n.heartbeat_at + interval n.lease microsecond > utc_timestamp(6)
        and (n.lock_name is null
             or n.heartbeat_at + interval 2 * n.renew microsecond > utc_timestamp(6)
             or is_free_lock(n.lock_name) = 0)))
