-- extend: holds that last longer, of the rows that `lock` noted.
-- Guarantee: the new due time of a row is never its old one. Index: primary key, forced by a join.
update json_table(@sendoff_rows, '$[*]' columns (
           id  char(32) path '$[0]',
           seq bigint   path '$[1]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.due_at = cast(@sendoff_at as datetime(6)) + interval
                  :hold + (e.due_at = cast(@sendoff_at as datetime(6)) + interval :hold microsecond)
                  microsecond
 where e.status in (0, 2)
