-- settle: what became of the rows that were noted: 0 released, 1 done, 2 retry, 3 dead, 4 due again
-- when they were.
-- Guarantee: one statement for all of them, each with its own count, delay and error.
-- Index: primary key, forced by a join.
update json_table(@sendoff_rows, '$[*]' columns (
           id       char(32) path '$[0]',
           seq      bigint   path '$[1]',
           outcome  int      path '$[2]',
           after_us bigint   path '$[4]',
           attempts bigint   path '$[5]',
           error    longtext path '$[6]',
           due_at   char(26) path '$[7]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.due_at = case s.outcome
                       when 0 then utc_timestamp(6)
                       when 2 then utc_timestamp(6) + interval s.after_us microsecond
                       when 4 then cast(s.due_at as datetime(6)) end,
       e.done_at = case when s.outcome in (1, 3) then utc_timestamp(6) end,
       e.status = case when s.outcome in (1, 2, 3) then s.outcome else e.status end,
       e.losses = case when s.outcome in (1, 2, 3) then 0 else e.losses end,
       e.attempts = coalesce(s.attempts, e.attempts),
       e.last_error = case when s.outcome in (2, 3) then convert(unhex(s.error) using utf8mb4)
                           else e.last_error end,
       e.locked_by = null
 where e.status in (0, 2)
