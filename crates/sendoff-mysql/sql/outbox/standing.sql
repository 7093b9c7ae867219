-- standing: how events stand, by their ids; the last error of those that are dead.
-- Guarantee: a plain read, which waits for nobody; sees committed rows only, and reads no payload.
-- Index: primary key.
select e.event_id, e.status, case when e.status = 3 then e.last_error end
  from sendoff.outbox_event e force index (primary)
 where e.event_id in (:ids)
