-- insert: new rows, in the caller's transaction.
-- Guarantee: all of a statement's rows or none; a second row with the same id is refused.
-- Index: unique (event_id). The loader repeats the last line, once for each row.
insert into outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload, delayed_until)
values
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
