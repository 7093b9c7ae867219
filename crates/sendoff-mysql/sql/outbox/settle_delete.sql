-- settle_delete: delivered and forgotten, of the rows that were noted.
-- Index: primary key, forced by a join.
delete e
  from json_table(@sendoff_rows, '$[*]' columns (
           id      char(32) path '$[0]',
           seq     bigint   path '$[1]',
           outcome int      path '$[2]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where s.outcome = 1 and e.status in (0, 2)
