-- insert: new rows, in the caller's transaction.
-- Guarantee: all of a statement's rows or none. Times are the statement's: those of a long transaction
-- would be past before anybody could see the row. Index: primary key.
set @sendoff_at = utc_timestamp(6);
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload)
values :rows
