-- settle_delete: as `settle_keep`, where delivered rows are deleted.
-- Guarantee: the same; what is deleted and what is changed are different rows. A row that a foreign
-- key keeps in place is busy as well, so rows are locked as a delete needs it.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.
with batch as materialized (
    select *
      from unnest($1::uuid[], $2::timestamptz[], $3::smallint[], $4::interval[], $5::integer[],
                  $6::text[], $7::timestamptz[])
           as s(id, token, outcome, after, attempts, error, due)
), mine as materialized (
    select e.event_id, e.created_at, s.outcome, s.after, s.attempts, s.error, s.due
      from batch s
      join sendoff.outbox_event e on e.event_id = any (array[s.id])
     where e.due_at is not distinct from s.token
       and e.status % 2 = 0 and e.locked_by is not null
     order by s.id
       for update of e skip locked
), deleted as (
    delete from sendoff.outbox_event e
     using mine m
     where e.event_id = any (array[m.event_id]) and e.created_at = m.created_at
       and m.outcome = 1
    returning e.event_id, e.event_type, m.outcome as status
), changed as (
    update sendoff.outbox_event e
       set status = case m.outcome when 0 then e.status else m.outcome end,
           due_at = case when m.outcome in (0, 2) then coalesce(m.due, now() + m.after)
                         else e.due_at end,
           attempts = coalesce(m.attempts, e.attempts),
           losses = case m.outcome when 0 then e.losses else 0 end,
           last_error = coalesce(m.error, e.last_error),
           done_at = case m.outcome when 3 then now() end,
           locked_by = null
      from mine m
     where e.event_id = any (array[m.event_id]) and e.created_at = m.created_at
       and m.outcome <> 1
    returning e.event_id, e.event_type, e.status
), settled as (
    select event_id, event_type, status from deleted
    union all
    select event_id, event_type, status from changed
), counted as (
    insert into sendoff.outbox_tally_delta (event_type, status, count)
    select event_type, status, count(*) from settled
     where status in (1, 3)
     group by event_type, status
)
select event_id, true as applied from settled
union all
select e.event_id, false
  from batch s
  join sendoff.outbox_event e on e.event_id = any (array[s.id])
 where (select count(*) from mine) < cardinality($1::uuid[])
   and e.due_at is not distinct from s.token
   and e.status % 2 = 0 and e.locked_by is not null
   and s.id not in (select event_id from mine)
