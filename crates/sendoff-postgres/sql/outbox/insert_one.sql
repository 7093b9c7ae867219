-- insert_one: one new row, held by its writer, for a session that has the statement prepared.
-- Guarantee: as `insert`, and without a statement before it. A transaction that wrote something has
-- its number before this row gives it one, as no statement on its own has; one that wrote nothing
-- was begun by us as DEFERRABLE, which means nothing where it writes. Where neither is so it raises,
-- so that a COMMIT after it cannot leave the event out. Rings no bell, since nobody else may take
-- the row yet. Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, headers, payload, due_at, created_at, locked_by)
select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, $8::text,
       $9::timestamptz, $10::jsonb, $11::bytea, statement_timestamp() + $12::interval,
       statement_timestamp(), $13::text
 where case when pg_current_xact_id_if_assigned() is not null
                 or current_setting('transaction_deferrable')
                    <> current_setting('default_transaction_deferrable')
            then true else sendoff.outbox_no_transaction() end
returning created_at, pg_current_xact_id() as xid, due_at
          , case when current_setting('synchronous_commit') = 'off'          -- [durable]
                 then set_config('synchronous_commit', 'local', true) end    -- [durable]
