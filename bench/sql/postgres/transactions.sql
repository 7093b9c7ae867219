-- transactions: how many ended in this database so far, one way or the other.
select pg_stat_get_db_xact_commit(d.oid) + pg_stat_get_db_xact_rollback(d.oid)
  from pg_database d
 where d.datname = current_database()
