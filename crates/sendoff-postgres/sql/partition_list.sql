-- partition_list: every partition but the tail with its range; and, in each row, the time and the
-- oldest row of the tail. One row at least.
-- Guarantee: the bounds are read in the session's time zone, which is in them. Index: the
-- catalogue's; outbox_event_pmax_created.
select now() as asked_at,
       (select created_at from sendoff.outbox_event_pmax order by created_at limit 1)
           as tail_oldest,
       part.name, part.same_schema,
       (regexp_match(part.bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
       (regexp_match(part.bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from (select) one
  left join (
        select c.relname::text as name, c.relnamespace = parent.relnamespace as same_schema,
               pg_get_expr(c.relpartbound, c.oid) as bound
          from pg_inherits i
          join pg_class c on c.oid = i.inhrelid
          join pg_class parent on parent.oid = i.inhparent
         where i.inhparent = to_regclass('sendoff.outbox_event')
           and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
       ) part on true
