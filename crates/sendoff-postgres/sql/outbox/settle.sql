-- What ends holds, and what makes them last.
-- Guarantee of all: a stale token changes nothing. Waits for no row (I11): one that somebody has locked
-- is left as it is and answered as busy, if the statement saw it held by the token.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.

-- settle_keep: the ends of holds, of every kind at once, where delivered rows are kept.
-- Guarantee: a second settlement changes nothing, and a terminal row stays as it is. Outcomes are 0
-- (given back: due when it was, or else now), the status to come (1 done, 2 retry, 3 dead), or 2 with what
-- it waits for: 4 its target, 5 a handler. Counts by appending, so that no two settlements share a row.
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
     order by s.id
       for no key update of e skip locked  -- [settle_keep]
       for update of e skip locked         -- [settle_delete]
), deleted as (                            -- [settle_delete]
    delete from sendoff.outbox_event e     -- [settle_delete]
     using mine m                          -- [settle_delete]
     where {mine} and m.outcome = 1        -- [settle_delete]
    returning e.event_id, e.event_type, m.outcome as status  -- [settle_delete]
), changed as (                            -- [settle_delete]
), settled as (                            -- [settle_keep]
    update sendoff.outbox_event e
       set {ended}
      from mine m
     where {mine}
       and m.outcome <> 1                  -- [settle_delete]
    returning e.event_id, e.event_type, e.status
), settled as (                            -- [settle_delete]
    select event_id, event_type, status from deleted  -- [settle_delete]
    union all                              -- [settle_delete]
    select event_id, event_type, status from changed  -- [settle_delete]
), counted as (
    {counted}
)
select event_id, true as applied from settled
union all
select e.event_id, false
  from {held}
   and {missed}

-- settle_locked_keep: outcomes of rows that this very transaction has locked, where delivered rows are
-- kept.
-- Guarantee: times are those of the statement, not of the transaction's begin; terminal rows stay as
-- they are. Outcomes and counters as in `settle_keep`.
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
    returning e.event_type, m.outcome as status  -- [settle_locked_delete]
), changed as (                            -- [settle_locked_delete]
    update sendoff.outbox_event e
       set {ended}
      from {given}                         -- [settle_locked_keep]
      from batch m                         -- [settle_locked_delete]
     where {locked}
       and m.outcome <> 1                  -- [settle_locked_delete]
    returning e.event_type, e.status
), settled as (                            -- [settle_locked_delete]
    select event_type, status from deleted -- [settle_locked_delete]
    union all                              -- [settle_locked_delete]
    select event_type, status from changed -- [settle_locked_delete]
)
{counted}

-- extend: holds that last longer.
-- Guarantee: the new due time is never the old one. What is busy is answered without a due time.
-- text extend
with batch as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
), mine as materialized (
    select e.event_id, e.created_at, s.token
      from {held}
     order by s.id
       for no key update of e skip locked
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

-- part ended
status = case when m.outcome = 0 then e.status when m.outcome in (4, 5) then 2 else m.outcome end,
due_at = case when m.outcome in (1, 3) then e.due_at else coalesce(m.due, {now} + m.after) end,
attempts = coalesce(m.attempts, e.attempts),
losses = case m.outcome when 0 then e.losses else 0 end,
last_error = coalesce(m.error, e.last_error),
done_at = case when m.outcome in (1, 3) then {now} end,
unavailable_since = case when m.outcome = 4 then coalesce(e.unavailable_since, {now})
                         when m.outcome in (0, 3, 5) then e.unavailable_since end,
unroutable_since = case when m.outcome = 5 then coalesce(e.unroutable_since, {now})
                        when m.outcome in (0, 3) then e.unroutable_since end,
locked_by = null

-- part counted
insert into sendoff.outbox_tally_delta (event_type, status, count)
select event_type, status, count(*) from settled
 where status in (1, 3)
 group by event_type, status

-- part now
now()                  -- [settle_keep]
now()                  -- [settle_delete]
statement_timestamp()  -- [settle_locked_keep]
statement_timestamp()  -- [settle_locked_delete]
