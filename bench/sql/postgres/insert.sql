-- insert: one row by hand, with every column Sendoff fills. $4 is how long it is held, $5 by whom; $7 its key, where it has one:
-- then it is in line, unless it is held.
-- Index: primary key.
insert into outbox_event
       (event_id, event_type, aggregate_type, shard, content_type, occurred_at, due_at, created_at,
        locked_by, payload, ordering_key)
values ($1::uuid, $2::text, '__GLOBAL__', $3::smallint, 'application/json', statement_timestamp(),
        case when $7::text is not null and $5::text is null then '9998-01-01 00:00:00Z'
             else statement_timestamp() + $4::float8 * interval '1 second' end, statement_timestamp(),
        $5::text, $6::bytea, $7::text)
returning due_at
