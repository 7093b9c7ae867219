-- settle_locked_keep: outcomes of rows that this very transaction has locked, where delivered rows
-- are kept.
-- Guarantee: times are those of the statement, not of the transaction's begin; terminal rows stay as
-- they are. Outcomes and counters as in `settle_keep`.
-- Index: primary key; whether a row is pending is asked for as in `settle_keep`.
with settled as (
    update sendoff.outbox_event e
       set status = case s.outcome when 0 then e.status else s.outcome end,
           due_at = case when s.outcome in (0, 2)
                         then coalesce(s.due, statement_timestamp() + s.after) else e.due_at end,
           attempts = coalesce(s.attempts, e.attempts),
           losses = case s.outcome when 0 then e.losses else 0 end,
           last_error = coalesce(s.error, e.last_error),
           done_at = case when s.outcome in (1, 3) then statement_timestamp() end,
           locked_by = null
      from unnest($1::uuid[], $2::smallint[], $3::interval[], $4::integer[], $5::text[],
                  $6::timestamptz[])
           as s(id, outcome, after, attempts, error, due)
     where e.event_id = any (array[s.id]) and e.status % 2 = 0
    returning e.event_type, e.status
)
insert into sendoff.outbox_tally_delta (event_type, status, count)
select event_type, status, count(*) from settled
 where status in (1, 3)
 group by event_type, status
