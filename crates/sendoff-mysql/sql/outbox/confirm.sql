-- confirm: which rows are there, pending and held, and by which token.
-- Guarantee: sees committed rows only; reads no payload. Index: primary key.
select e.event_id, e.due_at
  from sendoff.outbox_event e force index (primary)
 where e.event_id in (:ids)
   and e.status in (0, 2) and e.locked_by is not null
