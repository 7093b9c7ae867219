-- What lies below an event that was born held, in its key.
-- Guarantee of all: they read one snapshot, of committed rows only, and no payload.

-- confirm_row: the number and the key of a row that is there, pending, and held by this very token.
-- Index: unique (event_id).
-- text confirm_row
select seq, ordering_key
  from outbox_event
 where event_id = ?1 and due_at = ?2 and status in (0, 2) and locked_by is not null

-- confirm_below: the pending events of a key (?1) below a number (?2), ?3 at most.
-- Index: outbox_event_key, and a plan without it fails.
-- text confirm_below
select event_id
  from outbox_event indexed by outbox_event_key
 where ordering_key = ?1 and status in (0, 2) and seq < ?2
 order by seq
 limit ?3

-- confirm_parked: whether a key is parked. Index: primary key.
-- text confirm_parked
select exists (select 1 from outbox_key where ordering_key = ?1 and parked_by is not null)
