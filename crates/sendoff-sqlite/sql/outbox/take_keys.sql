-- What takes keys.
-- Guarantee of all: they run in one immediate transaction, so that nobody comes between the look at a key's
-- first row and the hold on the key; whatever was settled under an earlier hold is seen. `keys_due`,
-- `keys_suspect`, `key_head` and `key_walk` only read, and run without a lock first.

-- keys_due: the keys that are due (?1), save suspects to ?2, the earliest first, ?3 at most.
-- Index: outbox_key_due, and a plan without it fails.
--
-- keys_suspect: those that `keys_due` leaves out. Index: outbox_key_suspect, and a plan without it fails.
-- text keys_due, keys_suspect
select ordering_key, since, taken_at, run, careful, losses, locked_by is not null and locked_by <> ?2
  from outbox_key indexed by outbox_key_due                                      -- [keys_due]
  from outbox_key indexed by outbox_key_suspect                                  -- [keys_suspect]
 where parked_by is null and due_at <= ?1
   and losses + (run = 1 and locked_by is not null and locked_by <> ?2) < 2      -- [keys_due]
   and losses > 0                                                                -- [keys_suspect]
   and losses + (run = 1 and locked_by is not null and locked_by <> ?2) >= 2     -- [keys_suspect]
 order by due_at, ordering_key
 limit ?3

-- key_head: the first pending event of a key (?1). Reads no payload.
-- Index: outbox_event_key, and a plan without it fails.
-- text key_head
select seq, due_at, locked_by is not null, aggregate_type, event_type
  from outbox_event indexed by outbox_event_key
 where ordering_key = ?1 and status in (0, 2)
 order by seq
 limit 1

-- key_walk: the next ?2 rows in line after ?1, and whether their keys have entries. Reads no payload.
-- Index: outbox_event_due, and a plan without it fails; then the primary key of outbox_key.
-- text key_walk
select e.seq, e.ordering_key, e.aggregate_type, e.event_type,
       exists (select 1 from outbox_key k where k.ordering_key = e.ordering_key)
  from outbox_event e indexed by outbox_event_due
 where e.status in (0, 2) and e.due_at = 253339228800000000 and e.seq > ?1
 order by e.seq
 limit ?2

-- key_take: a key is held by ?2 since ?3, which is the token, until ?4; at ?5. Index: primary key.
-- text key_take
update outbox_key
   set locked_by = ?2, taken_at = ?3, due_at = ?4, since = ?5, run = ?6, careful = ?7, losses = ?8
 where ordering_key = ?1

-- key_list: a key that has no entry is held by ?2 since ?3, until ?4. Index: primary key.
-- text key_list
insert into outbox_key (ordering_key, locked_by, taken_at, due_at, since, run) values (?1, ?2, ?3, ?4, ?3, ?5)

-- key_blame: the first event of a key was lost with its holder. No count that is stored can make it fail: past
-- its bound one stays there. Index: primary key.
-- text key_blame
update outbox_event
   set attempts = min(attempts, 4294967294) + 1, losses = min(losses, 2147483646) + 1
 where seq = ?1

-- key_later: a key is free, and looked at again at ?2. Index: primary key.
-- text key_later
update outbox_key set due_at = ?2, careful = ?3, run = 0, locked_by = null where ordering_key = ?1

-- key_last: a key is due since ?2, behind those that are for longer. Index: primary key.
-- text key_last
update outbox_key set due_at = ?2 where ordering_key = ?1

-- key_gone: a key has no entry any more. Index: primary key.
-- text key_gone
delete from outbox_key where ordering_key = ?1

-- key_unreadable: a row in line whose key nobody can name is due by itself (?2), and ends as no event.
-- Index: primary key.
-- text key_unreadable
update outbox_event set due_at = ?2 where seq = ?1 and status in (0, 2)
