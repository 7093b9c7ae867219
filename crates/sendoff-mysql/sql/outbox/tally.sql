-- tally: counts what a settlement ended, by type, in its transaction, just before its end.
-- Guarantee: rows of its own, so that no settlement waits for another; `fold` adds them up later.
-- Index: primary key.
--
-- tally_in_line: the same of rows in line, as `lock_runs` noted them.
-- text tally, tally_in_line
insert into sendoff.outbox_tally_delta (part, event_type, status, count)
select :part, convert(unhex(s.type) using utf8mb4), s.outcome, count(*)
  from json_table(@sendoff_rows, '$[*]' columns (
           outcome int           path '$[2]',
           type    varchar(1024) path '$[3]'
           , n     int           path '$[9]'                -- [tally_in_line]
           )) s
 where s.outcome in (1, 3)
   and coalesce(find_in_set(s.n, @sendoff_busy), 0) = 0     -- [tally_in_line]
 group by s.type, s.outcome
