-- fill: so many rows, numbered from $2 on, in one status: 0 makes a backlog, 1 a past. In line with $4 keys,
-- one after the other, where that is more than none.
-- Guarantee: ids and due times grow as real ones do, so that indexes grow at their end.
insert into outbox_event
       (event_id, event_type, aggregate_type, shard, content_type, occurred_at, due_at, created_at,
        done_at, status, payload, ordering_key)
select (lpad(to_hex(1700000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 3)
        || '8' || substr(md5(i::text), 4, 15))::uuid,
       'bench.order', '__GLOBAL__', i % 64, 'application/json',
       now() - interval '1 minute',
       case when $4::bigint > 0 then '9998-01-01 00:00:00Z'
            else now() - interval '1 minute' + i * interval '1 microsecond' end, now() - interval '1 minute',
       case when $3::smallint = 1 then now() end, $3::smallint,
       convert_to(rpad('{"order":' || i || ',"note":"', 198, 'x') || '"}', 'UTF8'),
       case when $4::bigint > 0 then 'key-' || (i % $4::bigint) end
  from generate_series($2::bigint, $2::bigint + $1::bigint - 1) as i
