-- What kind of table it is, whether one column alone partitions it, and whether it has a tail: of the
-- outbox, or of the journal, whose tags have one too.
-- Guarantee: reads the catalogue only; no row where there is no table. Index: the catalogue's.
-- text partition_layout, layout
select c.relkind::text,
       exists (select from pg_partitioned_table p
                 join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
                where p.partrelid = c.oid and p.partstrat = 'r' and p.partnatts = 1
                  and a.attname = 'created_at'),                      -- [partition_layout]
                  and a.attname = 'position'),                        -- [layout]
       to_regclass('sendoff.outbox_event_pmax') is not null           -- [partition_layout]
       to_regclass('sendoff.journal_event_pmax') is not null          -- [layout]
           and to_regclass('sendoff.journal_tag_pmax') is not null    -- [layout]
  from pg_class c
 where c.oid = to_regclass('sendoff.outbox_event')                    -- [partition_layout]
 where c.oid = to_regclass('sendoff.journal_event')                   -- [layout]
