-- Keys that stand still.

-- parked_keys: the next :limit keys after :after that are parked, in the order of their bytes.
-- Guarantee: reads only; no event is looked at. Index: primary key of the keys, or outbox_key_parked where few are.
-- text parked_keys
select ordering_key
  from sendoff.outbox_key
 where ordering_key > :after and parked_by is not null
 order by ordering_key
 limit :limit

-- parked_count: how many are, up to :most. Index: outbox_key_parked.
-- text parked_count
select count(*)
  from (select 1
          from sendoff.outbox_key force index (outbox_key_parked)
         where parked_by is not null
         limit :most) k

-- key_standing: how the key :key stands: its entry, the dead event that it waits for, how many of its events are owed
-- a delivery, up to :most, and the first of them. One row, also where there is nothing of it.
-- Guarantee: a plain read; locks nothing, reads no payload. Index: outbox_event_key; primary keys.
-- text key_standing
select utc_timestamp(6), k.due_at, k.since, k.locked_by, k.parked_by,
       d.event_type, d.attempts, d.done_at, d.last_error,
       (select count(*) from (select 1 from {live} limit :most) n),
       e.event_id, e.event_type, e.created_at, e.due_at, e.locked_by, e.attempts, e.last_error
  from (select 1 as one) s
       left join sendoff.outbox_key k force index (primary) on k.ordering_key = :key
       left join sendoff.outbox_event d force index (primary) on d.event_id = k.parked_by and d.status = 3
       left join (select e.event_id, e.event_type, e.created_at, e.due_at, e.locked_by, e.attempts, e.last_error
                    from {live}
                   order by e.seq
                   limit 1) e on true
 limit 1

-- resume_key: the key :key goes on without the dead event that it waits for, if that is :event, or whatever it is where
-- that is NULL.
-- Guarantee: waits for nobody (I11): an entry that somebody has locked stays as it is, and the event is read without a
-- lock. Written down in the audit, with who did it and why, in the same transaction. Answers the event that it waited
-- for, if it goes on, and the one that it waits for now.
-- Index: primary keys.
-- text resume_key
set @sendoff_parked = null, @sendoff_type = null, @sendoff_attempts = null, @sendoff_error = null;
start transaction;
select hex(parked_by) into @sendoff_parked
  from sendoff.outbox_key force index (primary)
 where ordering_key = :key and parked_by is not null and (:event is null or parked_by = :event)
   for update skip locked;
select event_type, attempts, last_error into @sendoff_type, @sendoff_attempts, @sendoff_error
  from sendoff.outbox_event force index (primary)
 where event_id = unhex(@sendoff_parked) and status = 3
 limit 1;
insert into sendoff.outbox_audit (at, action, actor, reason, event_id, event_type, attempts, last_error, subject)
select utc_timestamp(6), 'resume', s.actor, s.reason, unhex(@sendoff_parked), @sendoff_type, @sendoff_attempts,
       @sendoff_error, s.subject
  from (select :actor as actor, :reason as reason, :subject as subject) s
 where @sendoff_parked is not null;
update sendoff.outbox_key force index (primary)
   set parked_by = null,
       -- Whoever holds it keeps it.
       due_at = if(locked_by is null, utc_timestamp(6), due_at),
       since = if(locked_by is null, utc_timestamp(6), since)
 where @sendoff_parked is not null and ordering_key = :key and parked_by = unhex(@sendoff_parked);
commit;
select unhex(@sendoff_parked), (select parked_by from sendoff.outbox_key where ordering_key = :key)

-- part live
sendoff.outbox_event e force index (outbox_event_key)
where e.live_key = :key
