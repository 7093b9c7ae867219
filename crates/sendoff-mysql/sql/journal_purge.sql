-- journal_purge: deletes rows, and remembers that they were there.
-- Guarantee: both or neither. Each by its number: of a range the server would lock the next row too,
-- which may be of an append that is open. Index: primary key.
delete e
  from json_table(:positions, '$[*]' columns (position bigint path '$')) w
       straight_join sendoff.journal_event e force index (primary) on e.position = w.position;
update sendoff.journal_gone set position = greatest(position, :last) where one = 1;
commit
