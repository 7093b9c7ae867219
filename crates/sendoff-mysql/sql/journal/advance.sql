-- advance: moves those cursors that journal_hold_cursors has.
-- Guarantee: a cursor moves only if this owner leads its pair under this epoch and it is where the move
-- comes from, so that neither an old leader nor a late one undoes what somebody else wrote; a status
-- that an operator set stays. Since when a pair waits at a fact is kept as long as it is the same.
-- Index: primary key.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
update json_table(:pairs, '$[*]' columns (nth for ordinality,
                                          topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p',
                                          epoch bigint path '$.e', came_from bigint path '$.f',
                                          goes_to bigint path '$.g', published int path '$.y',
                                          errors bigint path '$.n',
                                          error mediumtext character set utf8mb4 path '$.x',
                                          waits_at bigint path '$.w',
                                          fails int path '$.z')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
   set c.last_position = w.goes_to,
       c.error_count = w.errors,
       c.last_error = case when w.errors = 0 or w.error is not null then w.error
                           else c.last_error end,
       -- Before the position it is compared with: they are set from left to right.
       c.waits_since = case when w.waits_at is null then null
                            when w.waits_at = c.waits_at then c.waits_since
                            else utc_timestamp(6) end,
       c.waits_at = w.waits_at,
       c.status = case when w.fails = 1 and c.status = 'ACTIVE' then 'FAILED' else c.status end,
       c.published_at = case when w.published = 1 then utc_timestamp(6) else c.published_at end,
       c.heartbeat_at = utc_timestamp(6),
       c.updated_at = utc_timestamp(6)
 where find_in_set(w.nth, @sendoff_held)
   and c.leader = :owner and c.epoch = w.epoch and c.last_position = w.came_from
