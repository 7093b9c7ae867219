-- Walking over tenants, for claims that are shared among them. Rows without a tenant are one whose name is empty.

-- tenants: the tenants after :after that have a pending row, :page at most, and those up to it, as many again; each
-- with whether a row of it is visible.
-- Guarantee: reads only, locks nothing; one step for each tenant, however many rows it has, because the least due
-- time of each is its first entry. Index: outbox_event_tenant, loosely.
-- text tenants
(select 0, e.live_tenant, min(e.due_at) <= utc_timestamp(6)
   from sendoff.outbox_event e force index (outbox_event_tenant)
  where e.live_tenant > :after
  group by e.live_tenant order by e.live_tenant
  limit :page)
union all
(select 1, e.live_tenant, min(e.due_at) <= utc_timestamp(6)
   from sendoff.outbox_event e force index (outbox_event_tenant)
  where e.live_tenant <= :after
  group by e.live_tenant order by e.live_tenant
  limit :page)

-- tenants_ready: whether column and index are there. Guarantee: the server looks for both, and reads nothing.
-- text tenants_ready
select e.live_tenant from sendoff.outbox_event e force index (outbox_event_tenant) where false
