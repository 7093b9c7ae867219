-- leaving: tables in the journal's schema that belong to nothing, by name. Which of them were
-- partitions of ours, their names tell.
-- Index: the catalogue's.
select c.relname::text
  from pg_class c
  join pg_class journal on journal.oid = to_regclass('sendoff.journal_event')
 where c.relnamespace = journal.relnamespace and c.relkind = 'r' and not c.relispartition
