-- who: the transactions of `holders`, and who they are.
-- Guarantee: shows no query, whose text may hold values. Index: none.
with holding as materialized (
    select distinct virtualtransaction, pid
      from pg_locks
     where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
       and database = (select oid from pg_database where datname = current_database())
       and relation in ('sendoff.journal_event'::regclass, 'sendoff.journal_position'::regclass)
)
select h.virtualtransaction, h.pid, p.gid, coalesce(a.xact_start, p.prepared),
       nullif(a.application_name, '')
  from holding h
  left join pg_stat_activity a on a.pid = h.pid
  left join pg_locks own
    on h.pid is null and own.pid is null and own.virtualtransaction = h.virtualtransaction
   and own.locktype = 'transactionid' and own.mode = 'ExclusiveLock'
  left join pg_prepared_xacts p on p.transaction = own.transactionid
 order by 4 nulls first
