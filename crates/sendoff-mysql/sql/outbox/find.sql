-- find: one row as it stands. A terminal row is due no more: it shows when it ended. Index: primary key.
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, coalesce(e.due_at, e.done_at, e.created_at), e.created_at,
       e.status, e.done_at, e.last_error, e.locked_by, e.losses,
       e.unavailable_since, e.unroutable_since, e.delayed_until
  from sendoff.outbox_event e
 where e.event_id = :id
