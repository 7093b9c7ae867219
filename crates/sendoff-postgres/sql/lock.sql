-- lock: the visible rows, locked until the end of the transaction, oldest due first.
-- Guarantee: two transactions never get the same row, and nothing is written; a holder who vanished
-- is counted in what is returned. Returns no more bytes than $4, but always one row; the length of a
-- payload is known without reading it. How many rows to lock is counted first, over what lies ahead,
-- so that a batch keeps hardly a row from others that is too much for it.
-- Index: outbox_event_due, from $5 on.
with enough as materialized (
    select count(*) as rows
      from (select sum(size) over (order by due_at, seq rows unbounded preceding) as total
              from (select due_at, seq,
                           octet_length(payload)
                                + case when headers is null then 0
                                       when pg_column_size(headers) <= 200 then pg_column_size(headers)
                                       else octet_length(headers::text) end as size
                      from sendoff.outbox_event
                     where status in (0, 2)
                       and due_at <= now() and due_at >= coalesce($5::timestamptz, '-infinity')
                       and (created_at <= now() - $2::interval or created_at > now())
                       and created_at >= coalesce(now() - $3::interval, '-infinity')
                       and event_id <> all ($6::uuid[])
                     order by due_at, seq
                     limit $1::bigint) ahead) read
     where total <= $4::bigint
)
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       least(attempts::bigint + case when locked_by is null then 0 else 1 end,
             2147483647)::integer as attempts,
       due_at, created_at,
       seq, due_at as was_due, locked_by is not null as lost, now() as claimed_at
  from (select *, sum(size) over reading as total, row_number() over reading as place
          from (select *,
                       octet_length(payload)
                            + case when headers is null then 0
                                   when pg_column_size(headers) <= 200 then pg_column_size(headers)
                                   else octet_length(headers::text) end as size
                  from sendoff.outbox_event
                 where status in (0, 2)
                   and due_at <= now() and due_at >= coalesce($5::timestamptz, '-infinity')
                   and (created_at <= now() - $2::interval or created_at > now())
                   and created_at >= coalesce(now() - $3::interval, '-infinity')
                   and event_id <> all ($6::uuid[])
                 order by due_at, seq
                 limit (select greatest(rows, 1) from enough)
                   for update skip locked) locked
        window reading as (order by due_at, seq rows unbounded preceding)) fitting
 where total <= $4::bigint or place = 1
 order by place
