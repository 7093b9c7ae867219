-- insert: new rows, in the caller's transaction.
-- Guarantee: all of a statement's rows or none; nothing at all outside a transaction. One that wrote
-- something has its number before these rows give it one, as no statement on its own has; another is
-- known by the mark of `in_transaction`, sent just before and gone with its transaction. Times are
-- the statement's: those of a long transaction would be past before anybody could see the row. Rings
-- the bell only when rows are due at once ($14) and the relay said that it sleeps: in a function, or
-- the planner, which sees through a subquery, would find each plan for $14 = false cheaper than the
-- one it has, and plan every insert anew. Its transaction commits durably also where the session said
-- `synchronous_commit = off` (I13), and waits for no standby because of it. A row with a key that nobody
-- holds and that has no delay is in line. The xid is text: some drivers would ask the server what an xid8
-- is. Index: primary key.
insert into sendoff.outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload, delayed_until)
select i.event_id, i.event_type, i.aggregate_type, i.aggregate_id, i.tenant_id, i.ordering_key,
       i.shard, i.content_type, i.occurred_at,
       case when i.ordering_key is not null and i.locked_by is null and i.after = interval '0'
            then '9998-01-01 00:00:00Z' else statement_timestamp() + i.after end,
       statement_timestamp(), i.locked_by, i.headers, i.payload,
       case when i.locked_by is null and i.after > interval '0'
            then statement_timestamp() + i.after end
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
              $7::smallint[], $8::text[], $9::timestamptz[], $10::interval[], $11::text[],
              $12::jsonb[], $13::bytea[])
       as i(event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, occurred_at, after, locked_by, headers, payload)
 where pg_current_xact_id_if_assigned() is not null
    or current_setting('sendoff_capture.in_transaction', true) = 'yes'
returning created_at, due_at, pg_current_xact_id()::text as xid,
          (select sendoff.outbox_ring($14)) as rung
          , case when current_setting('synchronous_commit') = 'off'          -- [durable]
                 then set_config('synchronous_commit', 'local', true) end    -- [durable]
