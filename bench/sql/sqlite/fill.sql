-- fill: so many rows, numbered from ?2 on, in one status: 0 makes a backlog, 1 a past. In line with ?5 keys,
-- one after the other, where that is more than none.
-- Guarantee: ids grow with time as real ones do.
with recursive number(i) as (
    select ?2 union all select i + 1 from number where i < ?2 + ?1 - 1
)
insert into outbox_event
       (event_id, event_type, aggregate_type, shard, content_type, occurred_at, due_at, created_at,
        done_at, status, payload, ordering_key)
select unhex(printf('%012x', 1700000000000 + i) || '7' || '000' || '8' || printf('%015x', i)),
       'bench.order', '__GLOBAL__', i % 64, 'application/json', ?4,
       case when ?5 > 0 then 253339228800000000 else ?4 end, ?4,
       case when ?3 = 1 then ?4 end, ?3,
       cast('{"order":' || i || ',"note":"'
            || substr(printf('%.200c', 'x'), 1, 198 - length('{"order":' || i || ',"note":"'))
            || '"}' as blob),
       case when ?5 > 0 then 'key-' || (i % ?5) end
  from number
