-- claim: hold the visible rows that may run in company, oldest due first.
-- Guarantee: two claims never get the same row; a holder who vanished is counted in the same
-- statement, and that count is on the disk when it is answered: an event that takes the server down
-- with it must not be tried for ever. `local` is enough, and waits for no standby. Leaves suspects
-- out. A visible row was due before now, so the new due time, which is later than now, is another
-- token. Returns no more bytes than $6, but always one row; the length of a payload is known without
-- reading it. No stored value makes it fail. Index: outbox_event_due, from $7 on; then primary key.
with fitting as materialized (
    select *, sum(size) over reading as total, row_number() over reading as place
      from (
          select event_id, created_at, due_at, seq, locked_by,
                 octet_length(payload)
                   + case when headers is null then 0
                          when pg_column_size(headers) <= 200 then pg_column_size(headers)
                          else octet_length(headers::text) end as size
            from sendoff.outbox_event
           where status in (0, 2)
             and due_at <= now() and due_at >= coalesce($7::timestamptz, '-infinity')
             and (created_at <= now() - $4::interval or created_at > now())
             and created_at >= coalesce(now() - $5::interval, '-infinity')
             and losses + case when locked_by <> $1::text then 1 else 0 end < 2
             and event_id <> all ($8::uuid[])
           order by due_at, seq
           limit $2::bigint
             for no key update skip locked
           ) visible
    window reading as (order by due_at, seq rows unbounded preceding)
)
update sendoff.outbox_event e
   set due_at = now() + greatest($3::interval, interval '1 microsecond'),
       locked_by = $1::text,
       attempts = least(e.attempts::bigint + case when v.locked_by <> $1::text then 1 else 0 end,
                        2147483647),
       losses = least(e.losses, 32766) + case when v.locked_by <> $1::text then 1 else 0 end
  from fitting v
 where (v.total <= $6::bigint or v.place = 1)
   and e.event_id = any (array[v.event_id]) and e.created_at = v.created_at
returning e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
          e.content_type, e.occurred_at, e.headers, e.payload,
          e.attempts, e.due_at, e.created_at,
          e.seq, v.due_at as was_due, coalesce(v.locked_by <> $1::text, false) as lost,
          now() as claimed_at,
          case when v.locked_by <> $1::text and current_setting('synchronous_commit') = 'off'
               then set_config('synchronous_commit', 'local', true) end as commits
