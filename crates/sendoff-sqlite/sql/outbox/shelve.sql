-- What takes rows in line out of the way of walks.

-- shelve: rows in line after ?1 and up to ?2, created before ?3, whose keys are parked or have not moved since
-- then; ?4 at most.
-- Guarantee: reads only, and no payload. A row whose key has no entry is none of them.
-- Index: outbox_event_due, and a plan without it fails; then the primary key of outbox_key.
-- text shelve
select e.seq, e.ordering_key
  from outbox_event e indexed by outbox_event_due
 where e.status in (0, 2) and e.due_at = 253339228800000000 and e.seq > ?1 and e.seq <= ?2
   and e.created_at < ?3
   and exists (select 1 from outbox_key k
                where k.ordering_key = e.ordering_key
                  and (k.parked_by is not null or k.since < ?3))
 order by e.seq
 limit ?4

-- shelve_row: one of them. Guarantee: in the immediate transaction that found it, with its key's mark, so that
-- its key stays listed. Index: primary key.
-- text shelve_row
update outbox_event set due_at = 253370764800000000 where seq = ?1

-- shelve_key: its key's mark. Index: primary key.
-- text shelve_key
update outbox_key set shelved = 1 where ordering_key = ?1
