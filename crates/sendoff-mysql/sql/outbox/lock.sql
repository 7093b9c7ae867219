-- lock, lock_keyed: the rows among these that are held by the tokens given, with what shall become of each; noted
-- for the statements that follow in the same text. `lock_keyed` notes as well what `end_keyed`
-- needs. :entry is `lock_entry` and :too its table, or both are
-- nothing. :passing is `skip locked`, or nothing where a row is waited for.
-- Guarantee: a row that somebody else has locked is left out, and not waited for unless that is asked for. A
-- stale token finds nothing, also after such a wait, and no other row of the same id is touched.
-- Index: primary key, forced by a join: of a small table the optimiser would read rows of others.
-- text lock, lock_keyed
start transaction;
select json_arrayagg(json_array(s.id, e.seq, s.outcome, hex(e.event_type), s.after_us, s.attempts,
                                s.error, s.due_at
                                , hex(e.ordering_key), s.parks, s.n  -- [lock_keyed]
                                )),
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
           due_at   char(26) path '$.u'
           , parks  int      path '$.p'                               -- [lock_keyed]
           )) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
       :entry
 where e.due_at = cast(s.token as datetime(6)) and e.status in (0, 2) and e.locked_by is not null
   for update /*!80001 of e:too */ :passing
