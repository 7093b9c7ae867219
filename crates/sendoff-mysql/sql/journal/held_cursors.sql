-- held_cursors: of each pair that this owner leads under this epoch and that is at this position,
-- whether journal_hold_cursors has its cursor, and which status it will have. A move that goes nowhere asks
-- where the cursor is, also once a transaction that may be open has ended: it is not held until then.
-- Guarantee: what is held stays so until the end of the transaction. Index: primary key, by a join that
-- cannot be turned round.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
select w.nth, coalesce(find_in_set(w.nth, @sendoff_held), 0) > 0,
       case when w.fails = 1 and c.status = 'ACTIVE' then 'FAILED' else c.status end
  from json_table(:pairs, '$[*]' columns (nth for ordinality,
                                          topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p',
                                          epoch bigint path '$.e', came_from bigint path '$.f',
                                          goes_to bigint path '$.g', fails int path '$.z')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
 where c.leader = :owner and c.epoch = w.epoch
   and (c.last_position = w.came_from
        or w.came_from = w.goes_to and coalesce(find_in_set(w.nth, @sendoff_held), 0) = 0)
