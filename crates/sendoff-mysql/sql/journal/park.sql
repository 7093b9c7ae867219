-- park: parks what cursors leave behind, before they move.
-- Guarantee: only of those that will move, because journal_hold_cursors has them; see journal_advance.
-- Index: primary keys.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
insert into sendoff.journal_parked (topic, publisher, position, attempts, next_at, error)
select c.topic, c.publisher, w.position, w.attempts,
       utc_timestamp(6) + interval w.delay microsecond, w.error
  from json_table(:parked, '$[*]' columns (nth bigint path '$.h',
                                           topic varchar(128) character set utf8mb4 path '$.t',
                                           publisher varchar(128) character set utf8mb4 path '$.p',
                                           epoch bigint path '$.e', came_from bigint path '$.f',
                                           position bigint path '$.o', attempts bigint path '$.a',
                                           delay bigint path '$.d',
                                           error mediumtext character set utf8mb4 path '$.x')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
 where find_in_set(w.nth, @sendoff_held)
   and c.leader = :owner and c.epoch = w.epoch and c.last_position = w.came_from
on duplicate key update attempts = values(attempts), next_at = values(next_at), error = values(error)
