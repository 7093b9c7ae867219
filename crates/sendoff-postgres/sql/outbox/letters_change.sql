-- What an operator does to dead letters ($1), to those of which it is said ($2) only if they died then.
-- Guarantee of both: only dead rows are touched. Waits for no row (I11): one that somebody has locked is left
-- as it is. Each that is changed has its entry in the audit, with who did it ($3) and why ($4), in the same
-- transaction, which commits durably also where the session said `synchronous_commit = off`. Answers for each
-- letter whether it was changed, and where it stood when the statement began: its status, and whether it was
-- the death that was meant; then it is busy.
-- Index: primary key. Whether a row is dead is asked for in a way that no index serves: all dead rows would
-- rather be read than one key be probed in each of many partitions.

-- letters_requeue: they are new and due, held by nobody, and wait for nothing; their last error stays. Rings
-- for nodes that sleep.
--
-- letters_discard: they are gone. Rows are locked as a delete needs it.
-- text letters_requeue, letters_discard
with asked as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[]) as a(id, died_at)
), mine as materialized (
    select e.event_id, e.created_at, e.event_type, e.attempts, e.last_error
      from asked a
      join sendoff.outbox_event e on e.event_id = any (array[a.id])
     where {dead}
     order by e.event_id
       for no key update of e skip locked  -- [letters_requeue]
       for update of e skip locked         -- [letters_discard]
), noted as (
    insert into sendoff.outbox_audit (action, actor, reason, event_id, event_type, attempts, last_error)
    select 'requeue',                      -- [letters_requeue]
    select 'discard',                      -- [letters_discard]
           $3::text, $4::text, event_id, event_type, attempts, last_error
      from mine
), changed as (
    update sendoff.outbox_event e          -- [letters_requeue]
       set status = 0, attempts = 0, losses = 0, due_at = now(), done_at = null, locked_by = null,  -- [letters_requeue]
           unavailable_since = null, unroutable_since = null                                      -- [letters_requeue]
      from mine m                          -- [letters_requeue]
    delete from sendoff.outbox_event e     -- [letters_discard]
     using mine m                          -- [letters_discard]
     where e.event_id = any (array[m.event_id]) and e.created_at = m.created_at
)
select a.id, a.id in (select event_id from mine), max(e.status), coalesce(bool_or({dead}), false),
       (select sendoff.outbox_ring(exists (select from mine))),  -- [letters_requeue]
       (select case when current_setting('synchronous_commit') = 'off'
                    then set_config('synchronous_commit', 'local', true) end)
  from asked a
  left join sendoff.outbox_event e on e.event_id = any (array[a.id])
 group by a.id

-- part dead
e.status % 4 = 3 and (a.died_at is null or e.done_at = a.died_at)
