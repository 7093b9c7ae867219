-- find: one row as it stands. Index: unique (event_id).
--
-- peek: the first ?1 pending rows in the order of claims, as they stand.
-- Index: outbox_event_due, and a plan without it fails.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses,
       unavailable_since, unroutable_since, delayed_until
  from outbox_event                              -- [find]
 where event_id = ?1                             -- [find]
  from outbox_event indexed by outbox_event_due  -- [peek]
 where status in (0, 2)                          -- [peek]
 order by due_at, seq                            -- [peek]
 limit ?1                                        -- [peek]
