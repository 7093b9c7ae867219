-- One new row, in the caller's transaction.

-- insert_one: held by its writer, or due later, for a session that has the statement prepared.
-- Guarantee: as `insert`, and without a statement before it. A transaction that wrote something has
-- its number before this row gives it one, as no statement on its own has; one that wrote nothing
-- was begun by us as DEFERRABLE, which means nothing where it writes. Where neither is so it raises,
-- so that a COMMIT after it cannot leave the event out. Rings no bell, since nobody else may take
-- the row yet. Index: primary key.
--
-- write_one: the same for a driver that sends one statement at a time and hears its answer before it
-- commits.
-- Guarantee: inserts nothing where no transaction is known to be open, as `insert` does: it wrote nothing
-- before, and has no mark of `in_transaction`. The xid is text: some drivers would ask the server what
-- an xid8 is.
-- text insert_one, write_one
insert into sendoff.outbox_event
       ({columns}, due_at, created_at, locked_by, delayed_until)
select {values},
       case when $6::text is not null and $13::text is null and $12::interval = interval '0'
            then '9998-01-01 00:00:00Z' else statement_timestamp() + $12::interval end,
       statement_timestamp(), $13::text,
       case when $13::text is null and $12::interval > interval '0'
            then statement_timestamp() + $12::interval end
 where {known}
returning created_at, pg_current_xact_id() as xid, due_at              -- [insert_one]
returning created_at, due_at, pg_current_xact_id()::text as xid        -- [write_one]
          {durable}

-- insert_one_due, write_one_due: a row that is due at once, or in line, and so for anybody.
-- Guarantee: the same; rings only where the relay said that it sleeps. Without a parameter that
-- says whether to ring: the planner would see through it, and plan every insert anew.
-- Index: primary key.
--
-- write_one_plain: such a row about no aggregate, of no tenant, without key or headers, as most are. Each parameter
-- costs something on the way, also one that says nothing.
-- Guarantee: that of write_one_due. Index: primary key.
-- text insert_one_due, write_one_due, write_one_plain
insert into sendoff.outbox_event
       ({columns}, due_at, created_at)
select {values},
       case when $6::text is null then statement_timestamp() else '9998-01-01 00:00:00Z' end,  -- [not write_one_plain]
       statement_timestamp(),                                           -- [write_one_plain]
       statement_timestamp()
 where {known}
returning created_at, pg_current_xact_id() as xid,                      -- [insert_one_due]
returning created_at, due_at, pg_current_xact_id()::text as xid,        -- [not insert_one_due]
          case when pg_sequence_last_value('sendoff.outbox_bell'::regclass) = 2
               then pg_notify('sendoff_channel', '')::text end as rung
          {durable}

-- part columns
event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,  -- [not write_one_plain]
content_type, occurred_at, headers, payload                             -- [not write_one_plain]
event_id, event_type, aggregate_type, shard, content_type, occurred_at, payload      -- [write_one_plain]

-- part values
$1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, $8::text,  -- [not write_one_plain]
$9::timestamptz, $10::jsonb, $11::bytea                                 -- [not write_one_plain]
$1::uuid, $2::text, '__GLOBAL__', $3::smallint, $4::text, $5::timestamptz, $6::bytea  -- [write_one_plain]

-- part known
case when pg_current_xact_id_if_assigned() is not null
          or current_setting('transaction_deferrable')                  -- [insert_one, insert_one_due]
             <> current_setting('default_transaction_deferrable')       -- [insert_one, insert_one_due]
          or current_setting('sendoff_capture.in_transaction', true) = 'yes'  -- [not insert_one, insert_one_due]
     then true else sendoff.outbox_no_transaction() end                 -- [insert_one, insert_one_due]
     then true else false end                                           -- [not insert_one, insert_one_due]

-- part durable
, case when current_setting('synchronous_commit') = 'off'               -- [durable]
       then set_config('synchronous_commit', 'local', true) end         -- [durable]
