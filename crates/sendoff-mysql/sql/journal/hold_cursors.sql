-- hold_cursors: locks the cursors of pairs, and notes which of them it has, by their numbers in
-- the list, for the statements that follow in the same text.
-- Guarantee: theirs until the end of the transaction. A row that somebody else has locked is left out,
-- and not waited for. Index: primary key, by a join that cannot be turned round.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
select group_concat(w.nth) into @sendoff_held
  from json_table(:pairs, '$[*]' columns (nth for ordinality,
                                          topic varchar(128) character set utf8mb4 path '$.t',
                                          publisher varchar(128) character set utf8mb4 path '$.p')) w
       straight_join sendoff.journal_cursor c force index (primary)
       on c.topic = w.topic collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and c.publisher = w.publisher collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
   for update /*!80001 of c */ skip locked
