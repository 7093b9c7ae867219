-- journal_layout: what kind of table the journal is, whether positions alone partition it, and whether
-- both of its tables have a tail.
-- Guarantee: reads the catalogue only; no row where there is no table. Index: the catalogue's.
select c.relkind::text,
       exists (select from pg_partitioned_table p
                 join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
                where p.partrelid = c.oid and p.partstrat = 'r' and p.partnatts = 1
                  and a.attname = 'position'),
       to_regclass('sendoff.journal_event_pmax') is not null
           and to_regclass('sendoff.journal_tag_pmax') is not null
  from pg_class c
 where c.oid = to_regclass('sendoff.journal_event')
