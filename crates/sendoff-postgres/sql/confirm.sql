-- confirm: which rows are there, pending, and held by this very token.
-- Guarantee: sees committed rows only; reads no payload. Index: primary key.
select e.event_id
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
  join sendoff.outbox_event e on e.event_id = s.id
 where e.event_id = any ($1::uuid[])
   and e.due_at = s.token
   and e.status in (0, 2) and e.locked_by is not null
