-- tables_to_index: the table, or each of its partitions, where an index on $1, columns or expressions, with a
-- condition is missing; one that a build which was broken off left behind; and whether it is a partition.
-- Guarantee: reads the catalogue only. Index: the catalogue's.
with tables as (
    select c.oid
      from pg_class c
     where c.oid = to_regclass('sendoff.outbox_event') and c.relkind = 'r'
    union all
    select i.inhrelid from pg_inherits i where i.inhparent = to_regclass('sendoff.outbox_event')
), found as (
    select t.oid as thing, i.indexrelid, i.indisvalid
      from tables t
      join pg_index i on i.indrelid = t.oid
     where i.indpred is not null
       and (select array_agg(pg_get_indexdef(i.indexrelid, nth, true) order by nth)
              from generate_series(1, i.indnkeyatts::integer) as nth) = $1::text[]
)
select format('%I.%I', n.nspname, c.relname),
       (select format('%I.%I', n.nspname, b.relname)
          from found f join pg_class b on b.oid = f.indexrelid
         where f.thing = t.oid
         limit 1),
       c.relispartition
  from tables t
  join pg_class c on c.oid = t.oid
  join pg_namespace n on n.oid = c.relnamespace
 where not exists (select from found f where f.thing = t.oid and f.indisvalid)
 order by 1
