-- What ends holds, and what makes them last.
-- Guarantee of all: a stale token changes nothing. Waits for no row (I11): one that somebody has locked
-- is left as it is and answered as busy, if the statement saw it held by the token.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each. Rows are
-- locked in the order of what was given, for the same reason.

-- settle_keep: the ends of holds, of every kind at once, where delivered rows are kept.
-- Guarantee: a second settlement changes nothing, and a terminal row stays as it is. Outcomes are 0
-- (given back: due when it was, or else now, or in line where it has a key), the status to come (1 done, 2
-- retry, 3 dead), or 2 with what it waits for: 4 its target, 5 a handler; or 6: dead, and its key goes on. Counts
-- by appending, so that no two settlements share a row. A key whose event is dead is parked in the same
-- transaction, and where somebody has its entry locked the row is busy; any other that waits is looked at now,
-- unless somebody is at it already.
--
-- settle_delete: the same, where delivered rows are deleted.
-- Guarantee: what is deleted and what is changed are different rows. A row that a foreign key keeps in
-- place is busy as well, so rows are locked as a delete needs it.
-- text settle_keep, settle_delete
with batch as materialized (
    select *
      from unnest($1::uuid[], $2::timestamptz[], $3::smallint[], $4::interval[], $5::integer[],
                  $6::text[], $7::timestamptz[])
           as s(id, token, outcome, after, attempts, error, due)
), mine as materialized (
    select e.event_id, e.created_at, s.outcome, s.after, s.attempts, s.error, s.due
      from {held}
       and (s.outcome <> 3 or e.ordering_key is null or sendoff.outbox_key_free(e.ordering_key))
     order by s.id
       for no key update of e skip locked  -- [settle_keep]
       for update of e skip locked         -- [settle_delete]
), deleted as (                            -- [settle_delete]
    delete from sendoff.outbox_event e     -- [settle_delete]
     using mine m                          -- [settle_delete]
     where {mine} and m.outcome = 1        -- [settle_delete]
    returning {row}, m.outcome as status   -- [settle_delete]
), changed as (                            -- [settle_delete]
), settled as (                            -- [settle_keep]
    update sendoff.outbox_event e
       set due_at = {due}, {ended}
      from mine m
     where {mine}
       and m.outcome <> 1                  -- [settle_delete]
    returning {row}, e.status
), settled as (                            -- [settle_delete]
    select * from deleted                  -- [settle_delete]
    union all                              -- [settle_delete]
    select * from changed                  -- [settle_delete]
), counted as (
    {counted}
)
select event_id, true as applied from settled
union all
select null, {keys}
union all
select e.event_id, false
  from {held}
   and {missed}

-- settle_locked_keep: outcomes of rows that this very transaction has locked, where delivered rows are
-- kept.
-- Guarantee: times are those of the statement, not of the transaction's begin; terminal rows stay as
-- they are. Outcomes, counters and keys as in `settle_keep`; waits for an entry that is to be parked, which
-- nobody has locked for longer than a statement.
--
-- settle_locked_delete: the same, where delivered rows are deleted.
-- text settle_locked_keep, settle_locked_delete
with settled as (                          -- [settle_locked_keep]
with batch as materialized (               -- [settle_locked_delete]
    select * from {given}                  -- [settle_locked_delete]
), deleted as (                            -- [settle_locked_delete]
    delete from sendoff.outbox_event e     -- [settle_locked_delete]
     using batch m                         -- [settle_locked_delete]
     where {locked} and m.outcome = 1      -- [settle_locked_delete]
    returning {row}, m.outcome as status   -- [settle_locked_delete]
), changed as (                            -- [settle_locked_delete]
    update sendoff.outbox_event e
       set due_at = {due}, {ended}
      from {given}                         -- [settle_locked_keep]
      from batch m                         -- [settle_locked_delete]
     where {locked}
       and m.outcome <> 1                  -- [settle_locked_delete]
    returning {row}, e.status
), settled as (                            -- [settle_locked_delete]
    select * from deleted                  -- [settle_locked_delete]
    union all                              -- [settle_locked_delete]
    select * from changed                  -- [settle_locked_delete]
), counted as (
    {counted}
)
select {keys}

-- settle_runs_keep: outcomes of rows in line whose keys are held, and what becomes of the keys, where delivered rows
-- are kept. Of each key ($2, by its token $3): 0 held on, 1 free now, 2 free after ($5), 3 nothing more was seen of
-- it ($4); a row says by its place which key it is of ($6). Answers the places of keys: true is carried out,
-- false is busy.
-- Guarantee: the entry is locked and proved by its token before a row is touched, and everything about a key is done
-- or nothing. A row that is in line no more, or gone, is passed over. An entry of which nothing more was seen goes,
-- unless rows were shelved behind it, or it is parked; a dead row parks it in the same transaction. Losses of a key
-- are forgotten where an event of it is over. Waits for neither an entry nor a row (I11): its key is busy.
-- Index: primary keys.
--
-- settle_runs_delete: the same, where delivered rows are deleted.
-- text settle_runs_keep, settle_runs_delete
with batch as materialized (
    select *
      from unnest($2::text[], $3::timestamptz[], $4::smallint[], $5::interval[])
           with ordinality as s(key, token, ending, after, no)
), given as materialized (
    select *
      from unnest($6::integer[], $7::uuid[], $8::smallint[], $9::integer[], $10::text[])
           as r(no, id, outcome, attempts, error)
), entry as materialized (
    select s.no, k.ordering_key, s.ending, s.after, k.shelved, k.parked_by, k.losses
      from {held_key}
     order by s.key collate "C"
       for update of k skip locked
), found as materialized (
    select e.event_id, e.created_at, r.no, r.outcome, r.attempts, r.error
      from {of_ours}
       for no key update of e skip locked  -- [settle_runs_keep]
       for update of e skip locked         -- [settle_runs_delete]
), busy as materialized (
    select r.no
      from {of_ours}
       and (select count(*) from found) < cardinality($7::uuid[])
       and e.event_id not in (select event_id from found)
), mine as materialized (
    select * from found where no not in (select no from busy)
), deleted as (                            -- [settle_runs_delete]
    delete from sendoff.outbox_event e     -- [settle_runs_delete]
     using mine m                          -- [settle_runs_delete]
     where {mine} and m.outcome = 1        -- [settle_runs_delete]
    returning e.event_type, m.outcome as status  -- [settle_runs_delete]
), changed as (                            -- [settle_runs_delete]
), settled as (                            -- [settle_runs_keep]
    update sendoff.outbox_event e
       set {ended}
      from mine m
     where {mine}
       and m.outcome <> 1                  -- [settle_runs_delete]
    returning e.event_type, e.status
), settled as (                            -- [settle_runs_delete]
    select event_type, status from deleted -- [settle_runs_delete]
    union all                              -- [settle_runs_delete]
    select event_type, status from changed -- [settle_runs_delete]
), dead as materialized (
    select no, event_id from mine where outcome = 3
), ours as materialized (
    select *, coalesce(parks, parked_by) as parked
      from (select e.*, e.losses > 0 and e.no in (select no from given) as forgets,
                   (select event_id from dead d where d.no = e.no limit 1) as parks
              from entry e
             where e.no not in (select no from busy)) o
), gone as (
    delete from sendoff.outbox_key k
     using ours o
     where o.ending = 3 and not o.shelved and o.parked is null
       and k.ordering_key = any (array[o.ordering_key])
), freed as (
    update sendoff.outbox_key k
       set losses = case when o.forgets then 0 else k.losses end,
           parked_by = o.parked,
           due_at = case o.ending when 0 then k.due_at when 2 then now() + o.after else now() end,
           since = case o.ending when 0 then k.since else now() end,
           locked_by = case o.ending when 0 then k.locked_by end
      from ours o
     where (o.ending > 0 or o.forgets or o.parks is not null)
       and (o.ending < 3 or o.shelved or o.parked is not null)
       and k.ordering_key = any (array[o.ordering_key])
), counted as (
    {counted}
)
select no, true as applied from ours
union all
select no, false from entry where no in (select no from busy)
union all
select s.no, false
  from {held_key}
   and (select count(*) from entry) < cardinality($2::text[])
   and s.no not in (select no from entry)

-- extend: holds that last longer.
-- Guarantee: the new due time is never the old one. What is busy is answered without a due time.
--
-- extend_in_turn: the same, of one row that is waited for, for `$4` milliseconds at most.
-- Guarantee: as there. Having waited, it looks again at what the row is by then; one that is not the
-- holder's any more is answered as busy or not at all. Nothing else is locked while it waits (I10).
-- text extend, extend_in_turn
with batch as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
     where set_config('lock_timeout', $4::integer::text, true) is not null  -- [extend_in_turn]
), mine as materialized (
    select e.event_id, e.created_at, s.token
      from {held}
     order by s.id
       for no key update of e skip locked  -- [extend]
       for no key update of e              -- [extend_in_turn]
), extended as (
    update sendoff.outbox_event e
       set due_at = now() + $3::interval
                  + case when m.token = now() + $3::interval then interval '1 microsecond'
                         else interval '0' end
      from mine m
     where {mine}
    returning e.event_id, e.due_at
)
select event_id, due_at from extended
union all
select e.event_id, null
  from {held}
   and {missed}

-- part held
batch s
join sendoff.outbox_event e on e.event_id = any (array[s.id])
where e.due_at is not distinct from s.token
  and e.status % 2 = 0 and e.locked_by is not null

-- part missed
(select count(*) from mine) < cardinality($1::uuid[])
and s.id not in (select event_id from mine)

-- part given
unnest($1::uuid[], $2::smallint[], $3::interval[], $4::integer[], $5::text[], $6::timestamptz[])
    as m(id, outcome, after, attempts, error, due)

-- part mine
e.event_id = any (array[m.event_id]) and e.created_at = m.created_at

-- part locked
e.event_id = any (array[m.id]) and e.status % 2 = 0

-- part row
e.event_id, e.event_type, e.ordering_key, m.outcome

-- What follows for the keys of these rows; nothing where none has a key.
-- part keys
sendoff.outbox_keys_ended(array_agg(ordering_key), array_agg(event_id), array_agg(outcome))
  from settled
 where ordering_key is not null
having count(*) > 0

-- part held_key
batch s
join sendoff.outbox_key k on k.ordering_key = any (array[s.key])
where (k.taken_at = s.token and k.locked_by = $1::text) is true

-- part of_ours
given r
join sendoff.outbox_event e on e.event_id = any (array[r.id])
where (r.no in (select no from entry)) is true
  and (e.due_at between '9998-01-01 00:00:00Z' and '9999-01-01 00:00:00Z') is true and e.status % 2 = 0

-- part due
case when m.outcome in (1, 3, 6) then e.due_at
     when m.outcome = 0 and m.due is null and e.ordering_key is not null then '9998-01-01 00:00:00Z'
     else coalesce(m.due, {now} + m.after) end

-- part ended
status = case m.outcome when 0 then e.status when 4 then 2 when 5 then 2 when 6 then 3 else m.outcome end,
attempts = coalesce(m.attempts, e.attempts),
losses = case m.outcome when 0 then e.losses else 0 end,
last_error = coalesce(m.error, e.last_error),
done_at = case when m.outcome in (1, 3, 6) then {now} end,
unavailable_since = case when m.outcome = 4 then coalesce(e.unavailable_since, {now})
                         when m.outcome in (0, 3, 5, 6) then e.unavailable_since end,
unroutable_since = case when m.outcome = 5 then coalesce(e.unroutable_since, {now})
                        when m.outcome in (0, 3, 6) then e.unroutable_since end,
locked_by = null

-- part counted
insert into sendoff.outbox_tally_delta (event_type, status, count)
select event_type, status, count(*) from settled
 where status in (1, 3)
 group by event_type, status

-- part now
now()                  -- [settle_keep]
now()                  -- [settle_delete]
now()                  -- [settle_runs_keep]
now()                  -- [settle_runs_delete]
statement_timestamp()  -- [settle_locked_keep]
statement_timestamp()  -- [settle_locked_delete]
