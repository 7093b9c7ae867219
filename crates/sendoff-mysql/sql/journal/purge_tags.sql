-- purge_tags: deletes tags of facts that are about to go.
-- Guarantee: before the facts and in the same order, as a condition that is checked comes by both; it
-- waits then, and there is no deadlock between the two. Index: primary key.
-- Texts in the list have their character set, or they would have the database's, whichever that is.
delete t
  from json_table(:tags, '$[*]' columns (tag varchar(193) character set utf8mb4 path '$.t',
                                         position bigint path '$.p')) w
       straight_join sendoff.journal_tag t force index (primary)
       on t.tag = w.tag collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
      and t.position = w.position
