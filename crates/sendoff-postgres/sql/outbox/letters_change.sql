-- What an operator does to dead letters ($1), to those of which it is said ($2) only if they died then.
-- Guarantee of both: only dead rows are touched. Waits for no row (I11): one that somebody has locked is left
-- as it is, and so is one whose key waits for it and is locked. Each that is changed has its entry in the audit,
-- with who did it ($3) and why ($4), in the same transaction, which commits durably also where the session said
-- `synchronous_commit = off`. A key that waited for one of them is looked at now. Answers for each letter whether
-- it was changed, and where it stood when the statement began: its status, and whether it was the death that was
-- meant; then it is busy.
-- Index: primary keys. Rows are ordered by what was asked for, not by themselves: a plan that was made while a table was
-- empty would else read all of it in that order. Whether a row is dead is asked for in a way that no index serves: all dead rows would
-- rather be read than one key be probed in each of many partitions.

-- letters_requeue: they are new and due, or in line where they have a key, held by nobody, and wait for nothing;
-- their last error stays. Rings for nodes that sleep.
--
-- letters_discard: they are gone. Rows are locked as a delete needs it. Rings where a key waited for one.
-- text letters_requeue, letters_discard
with asked as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[]) as a(id, died_at)
), dead as materialized (
    select e.event_id, e.created_at, e.event_type, e.attempts, e.last_error, e.ordering_key
      from asked a
      join sendoff.outbox_event e on e.event_id = any (array[a.id])
     where {dead}
     order by a.id
       for no key update of e skip locked  -- [letters_requeue]
       for update of e skip locked         -- [letters_discard]
), freed as materialized (
    select k.ordering_key, k.parked_by
      from {waiting}
     order by d.ordering_key collate "C"
       for no key update of k skip locked
), mine as materialized (
    select * from dead
     where event_id not in (select d.event_id from {waiting} and k.parked_by not in (select parked_by from freed))
), noted as (
    insert into sendoff.outbox_audit (action, actor, reason, event_id, event_type, attempts, last_error)
    select 'requeue',                      -- [letters_requeue]
    select 'discard',                      -- [letters_discard]
           $3::text, $4::text, event_id, event_type, attempts, last_error
      from mine
), changed as (
    update sendoff.outbox_event e          -- [letters_requeue]
       set status = 0, attempts = 0, losses = 0, done_at = null, locked_by = null,  -- [letters_requeue]
           due_at = case when e.ordering_key is null then now() else '9998-01-01 00:00:00Z' end,  -- [letters_requeue]
           unavailable_since = null, unroutable_since = null                        -- [letters_requeue]
      from mine m                          -- [letters_requeue]
    delete from sendoff.outbox_event e     -- [letters_discard]
     using mine m                          -- [letters_discard]
     where e.event_id = any (array[m.event_id]) and e.created_at = m.created_at
), flowing as (
    update sendoff.outbox_key k
       set parked_by = null,
           -- Whoever holds it keeps it.
           due_at = case when k.locked_by is null then now() else k.due_at end,
           since = case when k.locked_by is null then now() else k.since end
      from freed f
     where k.ordering_key = any (array[f.ordering_key])
)
select a.id, a.id in (select event_id from mine), max(e.status), coalesce(bool_or({dead}), false),
       (select sendoff.outbox_ring(exists (select from mine))),   -- [letters_requeue]
       (select sendoff.outbox_ring(exists (select from freed))),  -- [letters_discard]
       (select case when current_setting('synchronous_commit') = 'off'
                    then set_config('synchronous_commit', 'local', true) end)
  from asked a
  left join sendoff.outbox_event e on e.event_id = any (array[a.id])
 group by a.id

-- part dead
e.status % 4 = 3 and (a.died_at is null or e.done_at = a.died_at)

-- The keys that wait for them.
-- part waiting
dead d
join sendoff.outbox_key k on k.ordering_key = any (array[d.ordering_key])
where k.parked_by = d.event_id
