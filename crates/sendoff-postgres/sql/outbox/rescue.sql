-- rescue: put right what a clock that has stepped back since left in the future.
-- Guarantee: held rows that are due further ahead than a hold may reach ($1) are due now, and who held
-- them stays known, so that their loss is counted; rows that nobody holds move back by as much as they
-- were created ahead (more than $2), delay and all, or are due now where no delay explains them ($3).
-- Delays stay as they are, one without end too: only a person can have set it. Rows in line stay there; of
-- the first ones, those that were created ahead were created now. Keys that are held for longer than a hold
-- may reach, or wait for longer than a delay, are looked at now. At most $4 rows of each, none that somebody
-- has locked. Index: outbox_event_due, without all the rows in line; outbox_key_due; then primary keys.
-- text rescue
with timed as materialized (
    select event_id, created_at,
           locked_by is null and created_at > now() + $2::interval and due_at >= created_at as moves
      from sendoff.outbox_event
     where status in (0, 2) and due_at > now() and due_at < '9998-01-01 00:00:00Z' and {ahead}
     order by due_at, seq
     limit $4::bigint
       for update skip locked
), endless as materialized (
    select event_id, created_at, false as moves
      from sendoff.outbox_event
     where status in (0, 2) and due_at > '9999-01-01 00:00:00Z' and {ahead}
     order by due_at, seq
     limit $4::bigint
       for update skip locked
), in_line as materialized (
    select e.event_id, e.created_at
      from (select event_id, created_at
              from sendoff.outbox_event
             where status in (0, 2) and due_at = '9998-01-01 00:00:00Z'
             order by due_at, seq
             limit $4::bigint) f
      join sendoff.outbox_event e on e.event_id = any (array[f.event_id]) and e.created_at = f.created_at
     where f.created_at > now() + $2::interval and isfinite(f.created_at)
       and e.status % 2 = 0 and (e.due_at >= '9998-01-01 00:00:00Z') is true
       for update of e skip locked
), keys as materialized (
    select ordering_key
      from sendoff.outbox_key
     where parked_by is null and due_at > now() + least($1::interval, $3::interval)
       and due_at > now() + case when locked_by is null then $3::interval else $1::interval end
     order by due_at
     limit $4::bigint
       for no key update skip locked
), looked_at as (
    update sendoff.outbox_key k
       set due_at = now()
      from keys
     where k.ordering_key = any (array[keys.ordering_key])
), ahead as materialized (
    select event_id, created_at, moves, false as waits from timed
    union all
    select event_id, created_at, moves, false from endless
    union all
    select event_id, created_at, false, true from in_line
)
update sendoff.outbox_event e
   set due_at = case when a.waits then e.due_at
                     when a.moves then now() + (e.due_at - e.created_at) else now() end,
       created_at = case when a.moves or a.waits then now() else e.created_at end
  from ahead a
 where e.event_id = any (array[a.event_id]) and e.created_at = a.created_at
returning e.event_id

-- part ahead
case when locked_by is not null then due_at > now() + $1::interval
     else isfinite(due_at) and isfinite(created_at)
          and (due_at > now() + $3::interval
               or (created_at > now() + $2::interval and due_at >= created_at)) end
