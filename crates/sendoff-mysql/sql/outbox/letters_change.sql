-- What an operator does to dead letters, to those of which it is said only if they died then.
-- Guarantee of both: only dead rows are touched. Waits for no row, and for no entry of the index that it is to
-- leave: a letter whose row or entry somebody has locked is left as it is. Each that is changed has its entry
-- in the audit, with who did it and why, in the same transaction. Answers which were changed, by their places
-- in the list, from 1; NULL for none.
-- Index: primary key, forced by a join; outbox_event_aside by all of its columns.

-- letters_requeue: they are new and due, held by nobody, and wait for nothing; their last error stays.
--
-- letters_discard: they are gone.
-- text letters_requeue, letters_discard
start transaction;
select json_arrayagg(json_array(s.id, e.seq)), group_concat(s.n)
  into @sendoff_rows, @sendoff_found
  from json_table(:rows, '$[*]' columns (
           n       for ordinality,
           id      char(32) path '$.i',
           died_at char(26) path '$.t')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
       straight_join sendoff.outbox_event d force index (outbox_event_aside)
           on d.aside = 3 and d.aside_at <=> e.done_at and d.seq = e.seq
 where e.status = 3 and (s.died_at is null or e.done_at = cast(s.died_at as datetime(6)))
   for update /*!80001 of e, d */ skip locked;
insert into sendoff.outbox_audit (at, action, actor, reason, event_id, event_type, attempts, last_error)
select utc_timestamp(6), 'requeue',  -- [letters_requeue]
select utc_timestamp(6), 'discard',  -- [letters_discard]
       :actor, :reason, e.event_id, e.event_type, e.attempts, e.last_error
  from {mine}
 where e.status = 3;
update {mine}                                                                       -- [letters_requeue]
   set e.status = 0, e.attempts = 0, e.losses = 0, e.due_at = utc_timestamp(6),     -- [letters_requeue]
       e.done_at = null, e.locked_by = null, e.unavailable_since = null,            -- [letters_requeue]
       e.unroutable_since = null                                                    -- [letters_requeue]
delete e from {mine}                                                                -- [letters_discard]
 where e.status = 3;
commit;
select @sendoff_found

-- part mine
json_table(@sendoff_rows, '$[*]' columns (
    id  char(32) path '$[0]',
    seq bigint   path '$[1]')) s
straight_join sendoff.outbox_event e force index (primary)
    on e.event_id = unhex(s.id) and e.seq = s.seq
