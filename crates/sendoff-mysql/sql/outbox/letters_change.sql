-- What an operator does to dead letters, to those of which it is said only if they died then.
-- Guarantee of both: only dead rows are touched. Waits for no row, for no entry of the index that it is to leave, and
-- for no key that waits for it: a letter of which somebody has locked one of these is left as it is. A key that
-- waits for a letter is looked at from now on. Each that is changed has its entry
-- in the audit, with who did it and why, in the same transaction. Answers which were changed, by their places
-- in the list, from 1; NULL for none.
-- Index: primary keys, forced by joins; outbox_event_aside by all of its columns.

-- letters_requeue: they are new and due, held by nobody, and wait for nothing; with a key they are in line. Their
-- last error stays.
--
-- letters_discard: they are gone.
-- text letters_requeue, letters_discard
start transaction;
select json_arrayagg(json_array(s.id, e.seq, hex(e.ordering_key), s.n)), group_concat(s.n)
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
select group_concat(s.n) into @sendoff_mine
  from {noted}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where k.parked_by = unhex(s.id)
   for update /*!80001 of k */ skip locked;
select json_arrayagg(json_array(s.id, s.seq, s.k, s.n)), group_concat(s.n)
  into @sendoff_rows, @sendoff_found
  from {noted}
       left join sendoff.outbox_key k force index (primary)
           on k.ordering_key = {key} and k.parked_by = unhex(s.id)
 where k.ordering_key is null or find_in_set(s.n, @sendoff_mine);
insert into sendoff.outbox_audit (at, action, actor, reason, event_id, event_type, attempts, last_error)
select utc_timestamp(6), 'requeue',  -- [letters_requeue]
select utc_timestamp(6), 'discard',  -- [letters_discard]
       :actor, :reason, e.event_id, e.event_type, e.attempts, e.last_error
  from {mine}
 where e.status = 3;
update {mine}                                                                       -- [letters_requeue]
   set e.status = 0, e.attempts = 0, e.losses = 0,                                  -- [letters_requeue]
       e.due_at = if(e.ordering_key is null, utc_timestamp(6), date'9998-01-01'),   -- [letters_requeue]
       e.done_at = null, e.locked_by = null, e.unavailable_since = null,            -- [letters_requeue]
       e.unroutable_since = null                                                    -- [letters_requeue]
delete e from {mine}                                                                -- [letters_discard]
 where e.status = 3;
update {noted}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.parked_by = null,
       -- Whoever holds it keeps it.
       k.due_at = if(k.locked_by is null, utc_timestamp(6), k.due_at),
       k.since = if(k.locked_by is null, utc_timestamp(6), k.since)
 where k.parked_by = unhex(s.id);
commit;
select @sendoff_found

-- part mine
{noted}
straight_join sendoff.outbox_event e force index (primary)
    on e.event_id = unhex(s.id) and e.seq = s.seq

-- part noted
json_table(@sendoff_rows, '$[*]' columns (
    id  char(32)      path '$[0]',
    seq bigint        path '$[1]',
    k   varchar(1024) path '$[2]',
    n   int           path '$[3]')) s

-- part key
convert(unhex(s.k) using utf8mb4)
