-- Walking over tenants, for claims that are shared among them. Rows without a tenant are one whose name is empty.

-- tenant_next: the first tenant after ?1 that has a pending row.
-- Guarantee: one step, however many rows it has. Index: outbox_event_tenant, covering, and a plan without it fails.
-- text tenant_next
select coalesce(tenant_id, '')
  from outbox_event indexed by outbox_event_tenant
 where status in (0, 2) and coalesce(tenant_id, '') > ?1
 order by coalesce(tenant_id, '')
 limit 1

-- tenant_first: the first of all. Index: as `tenant_next`.
-- text tenant_first
select coalesce(tenant_id, '')
  from outbox_event indexed by outbox_event_tenant
 where status in (0, 2) and coalesce(tenant_id, '') >= ''
 order by coalesce(tenant_id, '')
 limit 1

-- tenant_waits: whether a tenant, ?1, has a row that is due at ?2. Index: as `tenant_next`.
-- text tenant_waits
select exists (select 1
                 from outbox_event indexed by outbox_event_tenant
                where status in (0, 2) and coalesce(tenant_id, '') = ?1 and due_at <= ?2)
