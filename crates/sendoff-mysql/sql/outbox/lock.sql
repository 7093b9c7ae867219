-- lock: the rows among these that are held by the tokens given, with what shall become of each; noted
-- for the statements that follow in the same text. :entry is `lock_entry` and :too its table, or both are
-- nothing.
-- Guarantee: a row that somebody else has locked is left out, and not waited for. A stale token finds
-- nothing, and no other row of the same id is touched.
-- Index: primary key, forced by a join: of a small table the optimiser would read rows of others.
start transaction;
select json_arrayagg(json_array(s.id, e.seq, s.outcome, hex(e.event_type), s.after_us, s.attempts,
                                s.error, s.due_at)),
       group_concat(s.n), utc_timestamp(6)
  into @sendoff_rows, @sendoff_found, @sendoff_at
  from json_table(:rows, '$[*]' columns (
           n        for ordinality,
           id       char(32) path '$.i',
           token    char(26) path '$.t',
           outcome  int      path '$.o',
           after_us bigint   path '$.d',
           attempts bigint   path '$.a',
           error    longtext path '$.e',
           due_at   char(26) path '$.u')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
       :entry
 where e.due_at = cast(s.token as datetime(6)) and e.status in (0, 2) and e.locked_by is not null
   for update /*!80001 of e:too */ skip locked
