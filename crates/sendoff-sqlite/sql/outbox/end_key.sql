-- What becomes of a key.
-- Guarantee of all: in the transaction that settles its events. Index of all: primary key.

-- key_held: whether ?3 holds a key (?1) since ?2, and then whether it is parked, and whether rows are shelved.
-- Guarantee: a stale token finds nothing, and then nothing of that key is settled.
-- text key_held
select parked_by is not null, shelved
  from outbox_key
 where ordering_key = ?1 and taken_at = ?2 and locked_by = ?3

-- key_go_on: it is held on. An event of it was over where ?2 says so; ?3 is the dead one that parks it.
--
-- key_free: the same, and it is free and due at ?4; at ?5.
-- text key_go_on, key_free
update outbox_key
   set losses = iif(?2, 0, losses), parked_by = coalesce(?3, parked_by)
       , due_at = ?4, since = ?5, locked_by = null                     -- [key_free]
 where ordering_key = ?1

-- key_extend: it is held until ?4, by the same token.
-- text key_extend
update outbox_key set due_at = ?4 where ordering_key = ?1 and taken_at = ?2 and locked_by = ?3

-- key_park: it waits for what becomes of the dead event ?2, which died at ?3 by itself.
-- text key_park
insert into outbox_key (ordering_key, parked_by, due_at, since) values (?1, ?2, ?3, ?3)
on conflict (ordering_key) do update set parked_by = excluded.parked_by

-- key_wake: it is looked at now (?2), unless somebody holds it: an event of it that was held by itself is over.
-- text key_wake
update outbox_key set due_at = ?2 where ordering_key = ?1 and locked_by is null

-- key_unpark: it goes on at ?3: the dead event ?2 that it waits for is requeued or gone, or it goes on without it.
-- Whoever holds it keeps it.
-- text key_unpark
update outbox_key
   set parked_by = null, due_at = iif(locked_by is null, ?3, due_at), since = iif(locked_by is null, ?3, since)
 where ordering_key = ?1 and parked_by = ?2

-- keys_rescue: keys that are held until after ?2, or wait until after ?3, are due now (?1), ?4 at most: a clock
-- that has stepped back since put them there. Index: outbox_key_due, and a plan without it fails.
-- text keys_rescue
update outbox_key
   set due_at = ?1
 where ordering_key in (select ordering_key from outbox_key indexed by outbox_key_due
                         where parked_by is null and due_at > ?1
                           and due_at > iif(locked_by is null, ?3, ?2)
                         limit ?4)
