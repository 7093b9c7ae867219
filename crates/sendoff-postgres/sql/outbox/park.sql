-- Keys that stand still.

-- parked_keys: the next $2 keys after $1 that are parked, in the order of their bytes.
-- Guarantee: reads only; no event is looked at. Index: outbox_key_parked, or the primary key of the keys where many
-- are parked.
-- text parked_keys
select ordering_key
  from sendoff.outbox_key
 where ordering_key > $1::text collate "C" and parked_by is not null
 order by ordering_key
 limit $2::bigint

-- parked_count: how many are, up to $1. Index: outbox_key_parked, by its order: other keys are not looked at.
-- text parked_count
select count(*)
  from (select from sendoff.outbox_key where parked_by is not null order by since limit $1::bigint) k

-- key_standings: how the keys $1 stand, in their order: the entry of each, the dead event that it waits for, how many
-- of its events are owed a delivery, up to $2, and the first of them. One row for each, also where there is nothing
-- of it.
-- Guarantee: locks nothing; reads no payload. Index: outbox_event_key; primary keys.
-- text key_standings
select now(), k.due_at, k.since, k.locked_by, k.parked_by,
       d.event_type, d.attempts, d.done_at, d.last_error,
       (select count(*) from (select from {live} limit $2::bigint) e),
       e.event_id, e.event_type, e.created_at, e.due_at, e.locked_by, e.attempts, e.last_error
  from unnest($1::text[]) with ordinality as s(key, no)
  left join sendoff.outbox_key k on k.ordering_key = any (array[s.key])
  left join lateral (
       select event_type, attempts, done_at, last_error
         from sendoff.outbox_event
        where event_id = any (array[k.parked_by]) and status % 4 = 3
        limit 1) d on true
  left join lateral (
       select event_id, event_type, created_at, due_at, locked_by, attempts, last_error
         from {live}
        order by seq
        limit 1) e on true
 order by s.no

-- resume_key: the key $1 goes on without the dead event that it waits for, if that is $2, or whatever it is where that
-- is NULL. Rings for nodes that sleep.
-- Guarantee: waits for nobody (I11): an entry that somebody has locked stays as it is. Written down in the audit as
-- $5, with who did it ($3) and why ($4), in the same transaction, which commits durably. Answers the event that it
-- waited for, if it goes on, and the one that it waited for when the statement began.
-- Index: primary keys.
-- text resume_key
with entry as materialized (
    select ordering_key, parked_by
      from sendoff.outbox_key
     where ordering_key = any (array[$1::text])
       and parked_by is not null and ($2::uuid is null or parked_by = $2::uuid)
       for no key update skip locked
), noted as (
    insert into sendoff.outbox_audit (action, actor, reason, event_id, event_type, attempts, last_error, subject)
    select 'resume', $3::text, $4::text, k.parked_by, d.event_type, d.attempts, d.last_error, $5::text
      from entry k
      left join lateral (
           select event_type, attempts, last_error
             from sendoff.outbox_event
            where event_id = any (array[k.parked_by]) and status % 4 = 3
            limit 1) d on true
), flowing as (
    update sendoff.outbox_key k
       set parked_by = null,
           -- Whoever holds it keeps it.
           due_at = case when k.locked_by is null then now() else k.due_at end,
           since = case when k.locked_by is null then now() else k.since end
      from entry e
     where k.ordering_key = any (array[e.ordering_key])
)
select (select parked_by from entry),
       (select parked_by from sendoff.outbox_key where ordering_key = any (array[$1::text])),
       (select sendoff.outbox_ring(exists (select from entry))),
       (select case when current_setting('synchronous_commit') = 'off'
                    then set_config('synchronous_commit', 'local', true) end)

-- part live
sendoff.outbox_event
where ordering_key collate "C" = s.key and ordering_key is not null and status in (0, 2)
