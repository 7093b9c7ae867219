-- settle_delete: delivered rows, deleted.
-- Guarantee: a stale token deletes nothing. Index: primary key.
delete from outbox_event e
 using unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
 where e.event_id = s.id and e.due_at = s.token
   and e.status in (0, 2) and e.locked_by is not null
