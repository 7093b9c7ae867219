-- settle_delete: as `settle_keep`, where delivered rows are deleted.
-- Guarantee: the same; what is deleted and what is changed are different rows.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.
with mine as materialized (
    select event_id from sendoff.outbox_event
     where event_id = any ($1::uuid[])
     order by event_id
       for update
), batch as materialized (
    select *
      from unnest($1::uuid[], $2::timestamptz[], $3::smallint[], $4::interval[], $5::integer[],
                  $6::text[], $7::timestamptz[])
           as s(id, token, outcome, after, attempts, error, due)
), deleted as (
    delete from sendoff.outbox_event e
     using batch s
     where (select count(*) from mine) > 0
       and e.event_id = any (array[s.id]) and e.due_at is not distinct from s.token
       and s.outcome = 1
       and e.status % 2 = 0 and e.locked_by is not null
    returning e.event_id, e.event_type, s.outcome as status
), changed as (
    update sendoff.outbox_event e
       set status = case s.outcome when 0 then e.status else s.outcome end,
           due_at = case when s.outcome in (0, 2) then coalesce(s.due, now() + s.after)
                         else e.due_at end,
           attempts = coalesce(s.attempts, e.attempts),
           losses = case s.outcome when 0 then e.losses else 0 end,
           last_error = coalesce(s.error, e.last_error),
           done_at = case s.outcome when 3 then now() end,
           locked_by = null
      from batch s
     where (select count(*) from mine) > 0
       and e.event_id = any (array[s.id]) and e.due_at is not distinct from s.token
       and s.outcome <> 1
       and e.status % 2 = 0 and e.locked_by is not null
    returning e.event_id, e.event_type, e.status
), settled as (
    select event_id, event_type, status from deleted
    union all
    select event_id, event_type, status from changed
), counted as (
    insert into sendoff.outbox_tally as t (event_type, status, count)
    select event_type, status, count(*) from settled
     where status in (1, 3)
     group by event_type, status
     order by event_type collate "C", status
    on conflict (event_type, status) do update set count = t.count + excluded.count
)
select event_id from settled
