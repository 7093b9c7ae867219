-- holders: who an insert into the journal waits for at this moment.
-- Guarantee: shows no statement, whose text may hold values. Index: none; the server's own tables.
select distinct cast(b.trx_id as char), cast(b.trx_mysql_thread_id as signed),
       cast(convert_tz(b.trx_started, 'SYSTEM', :utc) as datetime(6))
  from
/*!80001 performance_schema.data_lock_waits w
       join performance_schema.data_locks l on l.engine_lock_id = w.requesting_engine_lock_id
       join information_schema.innodb_trx b on b.trx_id = w.blocking_engine_transaction_id
 where l.object_schema = :database and l.object_name in (:table, :holes) */
/*M!100600 information_schema.innodb_lock_waits w
       join information_schema.innodb_locks l on l.lock_id = w.requested_lock_id
       join information_schema.innodb_trx b on b.trx_id = w.blocking_trx_id
 where replace(l.lock_table, '`', '') in (concat(:database, '.', :table), concat(:database, '.', :holes)) */
 order by 3
