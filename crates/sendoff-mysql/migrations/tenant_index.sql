-- The index for claims that are shared among tenants: made where an option asks for it, by no migration.
-- Guarantee: may run again. Both servers write a table in partitions anew for such a column, and writers wait for
-- that; any other is left as it is.

-- The tenant of a row that is not over: an empty name where it has none.
set @sendoff_step = if(
    exists (select 1 from information_schema.columns
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_event'
               and column_name = 'live_tenant'),
    'do 0',
    'alter table sendoff_prefixoutbox_event
       add column live_tenant varchar(64) generated always as
           (case when status in (0, 2) then coalesce(tenant_id, '''') end) virtualsendoff_instant');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;

set @sendoff_step = if(
    exists (select 1 from information_schema.statistics
             where table_schema = database() and table_name = 'sendoff_prefixoutbox_event'
               and index_name = 'outbox_event_tenant'),
    'do 0',
    'alter table sendoff_prefixoutbox_event
       add key outbox_event_tenant (live_tenant, due_at, seq), algorithm = inplace, lock = none');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;
