-- purge: deletes rows, and remembers that they were there.
-- Guarantee: both or neither. Each by its number: of a range the server would lock the next row too,
-- which may be of an append that is open. What was closed is kept for a day: whoever took one of those
-- numbers before must still find it. Index: primary keys.
delete e
  from json_table(:positions, '$[*]' columns (position bigint path '$')) w
       straight_join sendoff.journal_event e force index (primary) on e.position = w.position;
update sendoff.journal_gone set position = greatest(position, :last) where one = 1;
delete from sendoff.journal_hole
 where last_position <= :last and closed_at < utc_timestamp(6) - interval 1 day;
commit
