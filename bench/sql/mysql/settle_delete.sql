-- settle_delete: delivered and forgotten, of rows that are locked.
-- Index: primary key, forced by a join: of a small table the optimiser would read, and wait for, rows
-- that others have locked.
delete e
  from json_table(:list, '$[*]' columns (id char(32) path '$')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
