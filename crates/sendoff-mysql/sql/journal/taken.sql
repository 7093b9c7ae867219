-- taken: what was just taken: nobody else can have this owner, which is new at every start,
-- under the epoch that follows the one that was seen. Index: primary key.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
select c.topic, c.publisher, c.last_position, c.status, c.error_count, left(c.last_error, 500),
       c.leader, c.epoch, c.published_at, c.waits_at, c.waits_since
  from json_table(:pairs, '$[*]' columns (topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p',
                                          epoch bigint path '$.e')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
 where c.leader = :owner and c.epoch = w.epoch + 1
