-- insert_one: one new row, held by its writer, in a transaction that we began.
-- Guarantee: as `insert`, and without a statement before it: we begin transactions as DEFERRABLE,
-- which means nothing where they write, and tells them from a statement on its own. Where that is
-- not so it raises, so that a COMMIT behind it cannot leave the event out. Rings no bell, since
-- nobody else may take the row yet. Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload)
select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, $8::text,
       $9::timestamptz, statement_timestamp() + $10::interval, statement_timestamp(), $11::text,
       $12::jsonb, $13::bytea
 where case when current_setting('transaction_deferrable')
                 <> current_setting('default_transaction_deferrable')
            then true else sendoff.outbox_no_transaction() end
returning created_at, due_at, pg_current_xact_id()::text as xid
