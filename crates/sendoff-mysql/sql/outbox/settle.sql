-- settle: what became of the rows that were noted: 0 released, 1 done, 2 retry, 3 dead, 4 due again
-- when they were, 5 retry that waits for its target, 6 for a handler.
-- Guarantee: one statement for all of them, each with its own count, delay and error. A row with a key that is
-- released is in line from then on. Index: primary key, forced by a join.
--
-- settle_in_line: the same of rows in line whose keys are held, as `lock_runs` noted them. They stay in line: when
-- one is tried again is its key's.
-- text settle, settle_in_line
update json_table(@sendoff_rows, '$[*]' columns (
           id       char(32) path '$[0]',
           seq      bigint   path '$[1]',
           outcome  int      path '$[2]',
           after_us bigint   path '$[4]',
           attempts bigint   path '$[5]',
           error    longtext path '$[6]',
           due_at   char(26) path '$[7]'
           , n      int      path '$[9]'                                                  -- [settle_in_line]
           )) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.due_at = case s.outcome
                       when 0 then if(e.ordering_key is null, utc_timestamp(6), date'9998-01-01')  -- [settle]
                       when 1 then null
                       when 3 then null
                       when 4 then cast(s.due_at as datetime(6))                          -- [settle]
                       else utc_timestamp(6) + interval s.after_us microsecond end,       -- [settle]
                       else e.due_at end,                                                 -- [settle_in_line]
       e.done_at = case when s.outcome in (1, 3) then utc_timestamp(6) end,
       e.status = case when s.outcome in (1, 2, 3) then s.outcome
                       when s.outcome in (5, 6) then 2 else e.status end,
       e.losses = case when s.outcome in (0, 4) then e.losses else 0 end,
       e.unavailable_since = case when s.outcome = 5 then coalesce(e.unavailable_since, utc_timestamp(6))
                                  when s.outcome in (0, 3, 4, 6) then e.unavailable_since end,
       e.unroutable_since = case when s.outcome = 6 then coalesce(e.unroutable_since, utc_timestamp(6))
                                 when s.outcome in (0, 3, 4) then e.unroutable_since end,
       e.attempts = coalesce(s.attempts, e.attempts),
       e.last_error = case when s.outcome in (2, 3, 5, 6) then convert(unhex(s.error) using utf8mb4)
                           else e.last_error end,
       e.locked_by = null
 where e.status in (0, 2)
   and coalesce(find_in_set(s.n, @sendoff_busy), 0) = 0                                   -- [settle_in_line]
