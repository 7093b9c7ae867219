-- find: one row as it stands. Index: unique (event_id).
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses,
       unavailable_since, unroutable_since, delayed_until
  from outbox_event
 where event_id = ?1
