-- rescue: put right what a clock that has stepped back since left in the future.
-- Guarantee: held rows that are due further ahead than a hold may reach ($1) are due now, and who held
-- them stays known, so that their loss is counted; rows that nobody holds move back by as much as they
-- were created ahead (more than $2), delay and all, or are due now where no delay explains them ($3).
-- Delays stay as they are, one without end too: only a person can have set it. At most $4 rows, none
-- that somebody has locked. Index: outbox_event_due; then primary key.
with ahead as materialized (
    select event_id, created_at,
           locked_by is null and created_at > now() + $2::interval and due_at >= created_at as moves
      from sendoff.outbox_event
     where status in (0, 2) and due_at > now()
       and case when locked_by is not null then due_at > now() + $1::interval
                else isfinite(due_at) and isfinite(created_at)
                     and (due_at > now() + $3::interval
                          or (created_at > now() + $2::interval and due_at >= created_at)) end
     order by due_at, seq
     limit $4::bigint
       for update skip locked
)
update sendoff.outbox_event e
   set due_at = case when a.moves then now() + (e.due_at - e.created_at) else now() end,
       created_at = case when a.moves then now() else e.created_at end
  from ahead a
 where e.event_id = any (array[a.event_id]) and e.created_at = a.created_at
returning e.event_id
