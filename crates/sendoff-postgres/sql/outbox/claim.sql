-- Which rows are visible, and what takes them.
-- $1: leave younger rows alone; $2: only rows created within; $3: only rows due since; $4: rows that are
-- passed over.

-- claim: hold the visible rows that may run in company, oldest due first.
-- Guarantee: two claims never get the same row; a holder who vanished is counted in the same
-- statement, and that count is on the disk when it is answered: an event that takes the server down
-- with it must not be tried for ever. `local` is enough, and waits for no standby. Leaves suspects
-- out. A visible row was due before now, so the new due time, which is later than now, is another
-- token. Returns no more bytes than $6, but always one row; the length of a payload is known without
-- reading it. No stored value makes it fail. Index: outbox_event_due, from $3 on; then primary key.
--
-- claim_suspects: hold the visible rows that were lost before and are lost again, oldest due first.
-- Guarantee: as `claim`, for exactly the rows that `claim` leaves out.
-- Index: outbox_event_suspect, from $3 on; then primary key.
--
-- claim_except, claim_suspects_except: the same without rows of the kinds $9, $10 (aggregate type, event
-- type) and of the event types $11, which are walked past and neither locked nor written.
-- text claim, claim_suspects, claim_except, claim_suspects_except
with fitting as materialized (
    select *, sum(size) over reading as total, row_number() over reading as place
      from (
          select event_id, created_at, due_at, seq, locked_by, {size} as size
            from sendoff.outbox_event
           where {visible}
             and losses > 0                        -- [claim_suspects, claim_suspects_except]
             and losses + {lost_by_another} >= 2   -- [claim_suspects, claim_suspects_except]
             and losses + {lost_by_another} < 2    -- [claim, claim_except]
             and (aggregate_type, event_type)                             -- [claim_except, claim_suspects_except]
                 not in (select * from unnest($9::text[], $10::text[]))   -- [claim_except, claim_suspects_except]
             and event_type <> all ($11::text[])                          -- [claim_except, claim_suspects_except]
           order by due_at, seq
           limit $5::bigint
             for no key update skip locked
           ) visible
    window reading as (order by due_at, seq rows unbounded preceding)
)
{hold}

-- claim_fair: hold visible rows of the tenants $9, of each no more than $10 says, oldest due first; an empty name
-- is that of rows without a tenant.
-- Guarantee: as `claim`; and a tenant's rows are found in a few steps, however many others have: only this index
-- has them in this order, in which the tenant counts, because it is one of a list. Where bytes run out, the first rows of all of them come before the
-- second of any. Index: outbox_event_tenant; then primary key.
--
-- claim_fair_except: the same without rows of the kinds $11, $12 and of the event types $13.
-- text claim_fair, claim_fair_except
with turns as materialized (
    select v.*, w.nth,
           row_number() over (partition by w.nth order by v.due_at, v.seq) as turn
      from unnest($9::text[], $10::bigint[]) with ordinality as w(tenant, rows, nth)
           cross join lateral (
               select event_id, created_at, due_at, seq, locked_by, {size} as size
                 from sendoff.outbox_event
                where {visible}
                  and {tenant} = any (array[w.tenant])
                  and losses + {lost_by_another} < 2
                  and (aggregate_type, event_type)                              -- [claim_fair_except]
                      not in (select * from unnest($11::text[], $12::text[]))   -- [claim_fair_except]
                  and event_type <> all ($13::text[])                           -- [claim_fair_except]
                order by {tenant}, due_at, seq
                limit w.rows
                  for no key update skip locked) v
), fitting as materialized (
    select *, sum(size) over reading as total, row_number() over reading as place
      from turns
    window reading as (order by turn, nth rows unbounded preceding)
     order by turn, nth
     limit $5::bigint
)
{hold}

-- lock: the visible rows, locked until the end of the transaction, oldest due first.
-- Guarantee: two transactions never get the same row, and nothing is written; a holder who vanished
-- is counted in what is returned. Returns no more bytes than $6, but always one row; the length of a
-- payload is known without reading it. How many rows to lock is counted first, over what lies ahead,
-- so that a batch keeps hardly a row from others that is too much for it.
-- Index: outbox_event_due, from $3 on.
--
-- lock_except: the same without rows of the kinds $7, $8 (aggregate type, event type) and of the event types
-- $9, which are walked past and not locked.
-- text lock, lock_except
with enough as materialized (
    select count(*) as rows
      from (select sum(size) over (order by due_at, seq rows unbounded preceding) as total
              from (select due_at, seq, {size} as size
                      from sendoff.outbox_event
                     where {visible}
                       {lock_others}
                     order by due_at, seq
                     limit $5::bigint) ahead) read
     where total <= $6::bigint
)
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       least(attempts::bigint + case when locked_by is null then 0 else 1 end,
             2147483647)::integer as attempts,
       due_at, created_at,
       seq, due_at as was_due, locked_by is not null as lost, now() as claimed_at,
       unavailable_since, unroutable_since
  from (select *, sum(size) over reading as total, row_number() over reading as place
          from (select *, {size} as size
                  from sendoff.outbox_event
                 where {visible}
                   {lock_others}
                 order by due_at, seq
                 limit (select greatest(rows, 1) from enough)
                   for update skip locked) locked
        window reading as (order by due_at, seq rows unbounded preceding)) fitting
 where total <= $6::bigint or place = 1
 order by place

-- first_visible: which row a claim or a lock with these bounds would take first.
-- Guarantee: changes nothing, reads no text. $5 says which rows: 0 any, 1 those that `claim` takes, 2
-- suspects. Index: outbox_event_due.
--
-- first_visible_except: the same without rows of the kinds $7, $8 (aggregate type, event type) and of the
-- event types $9.
-- text first_visible, first_visible_except
select event_id, due_at
  from sendoff.outbox_event
 where {visible}
   and case $5::smallint
           when 1 then losses + case when locked_by <> $6::text then 1 else 0 end < 2
           when 2 then losses + case when locked_by <> $6::text then 1 else 0 end >= 2
           else true end
   and (aggregate_type, event_type)                            -- [first_visible_except]
       not in (select * from unnest($7::text[], $8::text[]))   -- [first_visible_except]
   and event_type <> all ($9::text[])                          -- [first_visible_except]
 order by due_at, seq
 limit 1
   for no key update skip locked

-- some_visible: whether a lock would find anything, asked where the last one did not: a transaction for it
-- is eight statements.
-- Guarantee: answers a row if a row is visible; locks nothing. Index: outbox_event_due, from $3 on.
-- text some_visible
select 1
  from sendoff.outbox_event
 where {visible}
 order by due_at, seq
 limit 1

-- part lock_others
and (aggregate_type, event_type)                            -- [lock_except]
    not in (select * from unnest($7::text[], $8::text[]))   -- [lock_except]
and event_type <> all ($9::text[])                          -- [lock_except]

-- part visible
status in (0, 2)
and due_at <= now() and due_at >= coalesce($3::timestamptz, '-infinity')
and (created_at <= now() - $1::interval or created_at > now())
and created_at >= coalesce(now() - $2::interval, '-infinity')
and event_id <> all ($4::uuid[])

-- The rows that fit are held.
-- part hold
update sendoff.outbox_event e
   set due_at = now() + greatest($8::interval, interval '1 microsecond'),
       locked_by = $7::text,
       attempts = least(e.attempts::bigint + case when v.locked_by <> $7::text then 1 else 0 end,
                        2147483647),
       losses = least(e.losses, 32766) + case when v.locked_by <> $7::text then 1 else 0 end
  from fitting v
 where (v.total <= $6::bigint or v.place = 1)
   and e.event_id = any (array[v.event_id]) and e.created_at = v.created_at
returning e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
          e.content_type, e.occurred_at, e.headers, e.payload,
          e.attempts, e.due_at, e.created_at,
          e.seq, v.due_at as was_due, coalesce(v.locked_by <> $7::text, false) as lost,
          now() as claimed_at, e.unavailable_since, e.unroutable_since,
          case when current_setting('synchronous_commit') = 'off'
                and v.locked_by <> $7::text        -- [claim, claim_except, claim_fair, claim_fair_except]
               then set_config('synchronous_commit', 'local', true) end as commits

-- The tenant of a row: an empty name where it has none.
-- part tenant
coalesce(tenant_id, '') collate "C"

-- part lost_by_another
case when locked_by <> $7::text then 1 else 0 end

-- Bytes of a payload and its headers.
-- part size
octet_length(payload)
  + case when headers is null then 0
         when pg_column_size(headers) <= 200 then pg_column_size(headers)
         else octet_length(headers::text) end
