-- insert: one row by hand, with every column Sendoff fills. $4 is how long it is held, $5 by whom.
-- Index: primary key.
insert into outbox_event
       (event_id, event_type, aggregate_type, shard, content_type, occurred_at, due_at, created_at,
        locked_by, payload)
values ($1::uuid, $2::text, '__GLOBAL__', $3::smallint, 'application/json', statement_timestamp(),
        statement_timestamp() + $4::float8 * interval '1 second', statement_timestamp(),
        $5::text, $6::bytea)
returning due_at
