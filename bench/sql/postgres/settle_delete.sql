-- settle_delete: delivered rows, deleted.
-- Guarantee: a stale token deletes nothing. Index: primary key; tokens are compared in a way that no
-- index serves, because the rows of one claim share their due time.
delete from outbox_event e
 using unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
 where e.event_id = s.id and e.due_at is not distinct from s.token
   and e.status in (0, 2) and e.locked_by is not null
