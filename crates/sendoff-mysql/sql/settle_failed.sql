-- settle_failed: what failed, each with its own count, delay and error, of rows that `lock` found.
-- Guarantee: one statement for all of them. The outcome is the status to come: 2 retry, 3 dead.
-- Index: primary key, forced: of a small table the optimiser would read, and lock, every row.
update json_table(:rows, '$[*]' columns (
           id       char(32) path '$.i',
           outcome  int      path '$.o',
           after_us bigint   path '$.d',
           attempts bigint   path '$.a',
           error    longtext path '$.e')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
   set e.due_at = case when s.outcome = 2
                       then utc_timestamp(6) + interval s.after_us microsecond end,
       e.done_at = case when s.outcome = 3 then utc_timestamp(6) end,
       e.status = s.outcome,
       e.attempts = s.attempts,
       e.losses = 0,
       e.last_error = convert(unhex(s.error) using utf8mb4),
       e.locked_by = null
