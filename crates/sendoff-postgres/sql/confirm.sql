-- confirm: which rows are there, pending, and held by this very token.
-- Guarantee: sees committed rows only; reads no payload.
-- Index: primary key. Tokens are compared in a way that no index serves, because rows of one batch
-- share their due time and would all be looked at for each of them.
select e.event_id
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
  join sendoff.outbox_event e on e.event_id = s.id
 where e.due_at is not distinct from s.token
   and e.status in (0, 2) and e.locked_by is not null
