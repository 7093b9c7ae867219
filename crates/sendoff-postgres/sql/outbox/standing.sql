-- standing: how events stand, by their ids; the last error of those that are dead.
-- Guarantee: sees committed rows only; reads no payload, and locks nothing.
-- Index: primary key, also in partitions, where it is probed in each.
select e.event_id, e.status, case when e.status = 3 then e.last_error end
  from unnest($1::uuid[]) as s(id)
  join sendoff.outbox_event e on e.event_id = any (array[s.id])
