-- tenants: the tenants after $1 that have a pending row, and after the last of them the first ones, up to $1; each
-- with whether a row of it is visible. An empty name is that of rows without a tenant. Ends after $2 that have one,
-- and after $3 in any case.
-- Guarantee: changes and locks nothing; two steps in the index for each tenant, however many rows it has: `offset 0`
-- keeps the planner from writing each of them into every place that names it, and `order by`,
-- which a tenant that is one of a list does not make pointless, from another index.
-- Index: outbox_event_tenant.
with recursive walk (tenant, waits, around, found, steps) as (
    select $1::text collate "C", false, false, 0::bigint, 0::bigint
    union all
    select t.tenant, v.waits, t.around, w.found + v.waits::integer, w.steps + 1
      from walk w
           cross join lateral (select (
               select {tenant} from sendoff.outbox_event
                where status in (0, 2) and {tenant} > w.tenant
                order by {tenant} limit 1) as tenant offset 0) n
           cross join lateral (select
               case when n.tenant is not null then n.tenant
                    when not w.around then (
                        select {tenant} from sendoff.outbox_event
                         where status in (0, 2) and {tenant} >= ''
                         order by {tenant} limit 1) end as tenant,
               w.around or n.tenant is null as around offset 0) t
           cross join lateral (select (
               select true from sendoff.outbox_event
                where status in (0, 2)
                  and {tenant} = any (array[t.tenant]) and due_at <= now()
                order by {tenant}, due_at, seq limit 1) is not null as waits offset 0) v
     where w.found < $2::bigint and w.steps < $3::bigint
       and t.tenant is not null and (not t.around or t.tenant <= $1::text)
)
select tenant, waits from walk where steps > 0 order by steps

-- part tenant
coalesce(tenant_id, '') collate "C"
