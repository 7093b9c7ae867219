-- insert: new rows, in the caller's transaction, at the time that `at` noted just before.
-- Guarantee: all of a statement's rows or none. The time is not the transaction's: that of a long one
-- would be past before anybody could see the row. Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload, delayed_until)
values :rows
