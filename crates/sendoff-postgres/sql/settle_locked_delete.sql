-- settle_locked_delete: as `settle_locked_keep`, where delivered rows are deleted.
-- Guarantee: the same; what is deleted and what is changed are different rows.
-- Index: primary key; whether a row is pending is asked for as in `settle_keep`.
with batch as materialized (
    select *
      from unnest($1::uuid[], $2::smallint[], $3::interval[], $4::integer[], $5::text[],
                  $6::timestamptz[])
           as s(id, outcome, after, attempts, error, due)
), deleted as (
    delete from sendoff.outbox_event e
     using batch s
     where e.event_id = any (array[s.id]) and s.outcome = 1 and e.status % 2 = 0
    returning e.event_type, s.outcome as status
), changed as (
    update sendoff.outbox_event e
       set status = case s.outcome when 0 then e.status else s.outcome end,
           due_at = case when s.outcome in (0, 2)
                         then coalesce(s.due, statement_timestamp() + s.after) else e.due_at end,
           attempts = coalesce(s.attempts, e.attempts),
           losses = case s.outcome when 0 then e.losses else 0 end,
           last_error = coalesce(s.error, e.last_error),
           done_at = case s.outcome when 3 then statement_timestamp() end,
           locked_by = null
      from batch s
     where e.event_id = any (array[s.id]) and s.outcome <> 1 and e.status % 2 = 0
    returning e.event_type, e.status
), settled as (
    select event_type, status from deleted union all select event_type, status from changed
)
insert into sendoff.outbox_tally_delta (event_type, status, count)
select event_type, status, count(*) from settled
 where status in (1, 3)
 group by event_type, status
