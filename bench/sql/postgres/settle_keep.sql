-- settle_keep: delivered rows, kept.
-- Guarantee: a stale token changes nothing. Index: primary key; tokens are compared in a way that no
-- index serves, because the rows of one claim share their due time.
update outbox_event e
   set status = 1, done_at = now(), locked_by = null
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
 where e.event_id = s.id and e.due_at is not distinct from s.token
   and e.status in (0, 2) and e.locked_by is not null
