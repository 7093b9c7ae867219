-- insert: one row by hand, with every column Sendoff fills, due at once. Index: primary key.
insert into outbox_event
       (event_id, event_type, aggregate_type, shard, content_type, occurred_at, due_at, created_at,
        payload)
values (?, ?, '__GLOBAL__', ?, 'application/json', utc_timestamp(6), utc_timestamp(6),
        utc_timestamp(6), ?)
