-- insert_one_due: as `insert_one`, for a row that is due at once, and so for anybody.
-- Guarantee: the same; rings only where the relay said that it sleeps. Without a parameter that
-- says whether to ring: the planner would see through it, and plan every insert anew.
-- Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, headers, payload, due_at, created_at)
select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, $8::text,
       $9::timestamptz, $10::jsonb, $11::bytea, statement_timestamp(), statement_timestamp()
 where case when pg_current_xact_id_if_assigned() is not null
                 or current_setting('transaction_deferrable')
                    <> current_setting('default_transaction_deferrable')
            then true else sendoff.outbox_no_transaction() end
returning created_at, pg_current_xact_id() as xid,
          case when pg_sequence_last_value('sendoff.outbox_bell'::regclass) = 2
               then pg_notify('sendoff_channel', '')::text end as rung
          , case when current_setting('synchronous_commit') = 'off'          -- [durable]
                 then set_config('synchronous_commit', 'local', true) end    -- [durable]
