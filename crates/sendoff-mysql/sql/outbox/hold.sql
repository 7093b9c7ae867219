-- hold: the second half of a claim, for the rows it locked.
-- Guarantee: a holder who vanished is counted in the same transaction. A visible row was due before
-- now, so the new due time, which is later than now, is another token. Whatever counts a row has,
-- they fit. Index: primary key, forced by a join.
update json_table(@sendoff_rows, '$[*]' columns (
           id   char(32) path '$[0]',
           seq  bigint   path '$[1]',
           lost int      path '$[3]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.attempts = least(e.attempts, 4294967295 - s.lost) + s.lost,
       e.losses = least(e.losses, 65535 - s.lost) + s.lost,
       e.due_at = cast(@sendoff_until as datetime(6)),
       e.locked_by = :owner
 where e.status in (0, 2)
