-- journal migration 5: where publishers wait.
-- Guarantee: every step may run again.

-- The fact that a publisher waits at because it failed, and since when (UTC). MySQL cannot add a column
-- only if it is not there.
set @sendoff_step = if(
    exists (select 1 from information_schema.columns
             where table_schema = database() and table_name = 'sendoff_prefixjournal_cursor'
               and column_name = 'waits_at'),
    'do 0',
    'alter table sendoff_prefixjournal_cursor
       add column waits_at bigint null, add column waits_since datetime(6) null, lock = none');
prepare sendoff_step from @sendoff_step;
execute sendoff_step;
deallocate prepare sendoff_step;
