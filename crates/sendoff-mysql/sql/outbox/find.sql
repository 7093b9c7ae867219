-- find: one row as it stands. A terminal row is due no more: it shows when it ended. Index: primary key.
--
-- peek: the first :limit pending rows in the order of claims, as they stand. Takes and locks nothing.
-- Index: outbox_event_due.
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, coalesce(e.due_at, e.done_at, e.created_at), e.created_at,
       e.status, e.done_at, e.last_error, e.locked_by, e.losses,
       e.unavailable_since, e.unroutable_since, e.delayed_until
  from sendoff.outbox_event e                                 -- [find]
 where e.event_id = :id                                       -- [find]
  from sendoff.outbox_event e force index (outbox_event_due)  -- [peek]
 where e.due_at is not null                                   -- [peek]
 order by e.due_at, e.seq                                     -- [peek]
 limit :limit                                                 -- [peek]
