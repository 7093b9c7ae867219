-- Dead letters, in the order in which they died, between two times (?1 to ?2) and after a place (?3, ?4).
-- Guarantee: walks dead rows only, however many others there are; the payload is not read. What a filter
-- does not say (?7 to ?13) is NULL. Errors are searched letter by letter, without patterns.
-- Index: outbox_event_dead, and a plan without it fails.

-- letters_step: where the next ?5 rows end, for a walk in steps; none where there are no more.
-- text letters_step, letters_step_newest
select done_at, seq
  from outbox_event indexed by outbox_event_dead
 where {place}
 order by done_at, seq            -- [letters_step]
 order by done_at desc, seq desc  -- [letters_step_newest]
 limit 1 offset ?5

-- letters: those up to a place (?5, ?6) that meet a filter, ?14 at most.
-- text letters, letters_newest
select event_id, seq, event_type, aggregate_type, aggregate_id, tenant_id, attempts, created_at, done_at,
       last_error
  from outbox_event indexed by outbox_event_dead
 where {place} and {meant}
   and (done_at, seq) <= (?5, ?6)  -- [letters]
   and (done_at, seq) >= (?5, ?6)  -- [letters_newest]
 order by done_at, seq             -- [letters]
 order by done_at desc, seq desc   -- [letters_newest]
 limit ?14

-- letters_count: how many of them there are, up to ?14.
-- text letters_count
select count(*)
  from (select 1
          from outbox_event indexed by outbox_event_dead
         where {place} and {meant} and (done_at, seq) <= (?5, ?6)
         limit ?14)

-- part place
status = 3 and done_at between ?1 and ?2
and (done_at, seq) > (?3, ?4)  -- [letters, letters_step, letters_count]
and (done_at, seq) < (?3, ?4)  -- [letters_newest, letters_step_newest]

-- part meant
(?7 is null or event_type = ?7)
and (?8 is null or aggregate_type = ?8)
and (?9 is null or aggregate_id = ?9)
and (?10 is null or tenant_id = ?10)
and (?11 is null or instr(last_error, ?11) > 0)
and (?12 is null or attempts >= ?12)
and (?13 is null or attempts <= ?13)
