-- journal_give: gives pairs up that this owner has under this epoch; of those that
-- journal_hold_cursors has. Others stay as they are. Index: primary key.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
update json_table(:pairs, '$[*]' columns (nth for ordinality,
                                          topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p',
                                          epoch bigint path '$.e')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
   set c.leader = null, c.heartbeat_at = null, c.updated_at = utc_timestamp(6)
 where find_in_set(w.nth, @sendoff_held)
   and c.leader = :owner and c.epoch = w.epoch
