-- The index for claims that are shared among tenants: made where an option asks for it, by no migration.
-- Guarantee: may run again. Rows without a tenant are one whose name is empty.
create index if not exists outbox_event_tenant
    on sendoff.outbox_event ((coalesce(tenant_id, '') collate "C"), due_at, seq) where status in (0, 2);
