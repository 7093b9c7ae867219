-- settle_delete: delivered and forgotten, of the rows that were noted.
-- Index: primary key, forced by a join.
--
-- delete_in_line: the same of rows in line, as `lock_runs` noted them.
-- text settle_delete, delete_in_line
delete e
  from json_table(@sendoff_rows, '$[*]' columns (
           id      char(32) path '$[0]',
           seq     bigint   path '$[1]',
           outcome int      path '$[2]'
           , n     int      path '$[9]'                      -- [delete_in_line]
           )) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where s.outcome = 1 and e.status in (0, 2)
   and coalesce(find_in_set(s.n, @sendoff_busy), 0) = 0      -- [delete_in_line]
