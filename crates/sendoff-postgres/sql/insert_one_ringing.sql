-- insert_one_ringing: as `insert_one`, for a row that is due at once, and so for anybody.
-- Guarantee: the same; rings only where the relay said that it sleeps. Without a parameter that
-- says whether to ring: the planner would see through it, and plan every insert anew.
-- Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload)
select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, $8::text,
       $9::timestamptz, statement_timestamp() + $10::interval, statement_timestamp(), $11::text,
       $12::jsonb, $13::bytea
 where case when current_setting('transaction_deferrable')
                 <> current_setting('default_transaction_deferrable')
            then true else sendoff.outbox_no_transaction() end
returning created_at, due_at, pg_current_xact_id()::text as xid,
          (select pg_notify('sendoff_channel', '')::text from sendoff.outbox_bell where asleep)
              as rung
