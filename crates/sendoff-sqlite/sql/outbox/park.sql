-- Keys that stand still. Index of all about entries: primary key of outbox_key, which has as many rows as keys are
-- held, wait or are parked.

-- parked_keys: the next ?2 keys after ?1 that are parked, in the order of their bytes.
-- Guarantee: reads only; no event is looked at.
-- text parked_keys
select ordering_key
  from outbox_key
 where ordering_key > ?1 and parked_by is not null
 order by ordering_key
 limit ?2

-- parked_count: how many are, up to ?1.
-- text parked_count
select count(*) from (select 1 from outbox_key where parked_by is not null limit ?1)

-- key_standing: how the key ?1 stands at ?2: its entry, the dead event that it waits for, how many of its events are
-- owed a delivery, up to ?3, and the first of them. One row, also where there is nothing of it.
-- Guarantee: reads only, and no payload. Index: outbox_event_key, and a plan without it fails; unique (event_id).
-- text key_standing
select ?2, k.due_at, k.since, k.locked_by, k.parked_by,
       d.event_type, d.attempts, d.done_at, d.last_error,
       (select count(*)
          from (select 1 from outbox_event indexed by outbox_event_key where {live} limit ?3)),
       e.event_id, e.event_type, e.created_at, e.due_at, e.locked_by, e.attempts, e.last_error
  from (select 1)
       left join outbox_key k on k.ordering_key = ?1
       left join outbox_event d on d.event_id = k.parked_by and d.status = 3
       left join outbox_event e
              on e.seq = (select min(seq) from outbox_event indexed by outbox_event_key where {live})

-- key_parked: the dead event that the key ?1 waits for, if it does.
-- text key_parked
select parked_by from outbox_key where ordering_key = ?1 and parked_by is not null

-- audit_key: writes down at ?1 that a key went on without the dead event ?4, in the transaction in which it does: by
-- whom (?2), why (?3), and which (?5).
-- Guarantee: entries are numbered in the order of commits. Index: unique (event_id).
-- text audit_key
insert into outbox_audit (at, action, actor, reason, event_id, event_type, attempts, last_error, subject)
select ?1, 'resume', ?2, ?3, ?4, d.event_type, d.attempts, d.last_error, ?5
  from (select 1) left join outbox_event d on d.event_id = ?4 and d.status = 3

-- part live
ordering_key = ?1 and ordering_key is not null and status in (0, 2)
