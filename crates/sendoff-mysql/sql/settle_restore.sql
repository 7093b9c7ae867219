-- settle_restore: given up as if never claimed, each due when it was, of rows that `lock` found.
-- Index: primary key, forced: of a small table the optimiser would read, and lock, every row.
update json_table(:rows, '$[*]' columns (
           id     char(32) path '$.i',
           due_at char(26) path '$.u')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
   set e.due_at = cast(s.due_at as datetime(6)), e.locked_by = null
