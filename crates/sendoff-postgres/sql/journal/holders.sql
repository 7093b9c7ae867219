-- holders: every transaction that may have taken a position and is not over.
-- Guarantee: whoever takes a position locks the sequence first, and the table, and lets go after it
-- became visible or was undone. By the name that PREPARE does not change: its pid it takes away.
-- Index: none; the server's own table of locks.
select distinct virtualtransaction
  from pg_locks
 where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
   and database = (select oid from pg_database where datname = current_database())
   and relation in ('sendoff.journal_event'::regclass, 'sendoff.journal_position'::regclass)
