-- confirm: which rows are there, pending, and held by this very token.
-- Guarantee: sees committed rows only; reads no payload.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.
select e.event_id
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
  join sendoff.outbox_event e on e.event_id = any (array[s.id])
 where e.due_at is not distinct from s.token
   and e.status % 2 = 0 and e.locked_by is not null
