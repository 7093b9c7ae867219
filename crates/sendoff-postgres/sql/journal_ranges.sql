-- journal_ranges: every partition but the tail, of the facts or of their tags, with its range; and, in
-- each row, the lowest position in the tail. One row at least.
-- Index: the catalogue's; primary key of journal_event_pmax, (position) of journal_tag_pmax.
select case when $1::boolean
            then (select position from sendoff.journal_tag_pmax order by position limit 1)
            else (select position from sendoff.journal_event_pmax order by position limit 1)
       end as tail_lowest,
       part.name, part.same_schema,
       (regexp_match(part.bound, 'FROM \(''(\d+)''\)'))[1]::bigint as from_position,
       (regexp_match(part.bound, 'TO \(''(\d+)''\)'))[1]::bigint as to_position
  from (select) one
  left join (
        select c.relname::text as name, c.relnamespace = parent.relnamespace as same_schema,
               pg_get_expr(c.relpartbound, c.oid) as bound
          from pg_inherits i
          join pg_class c on c.oid = i.inhrelid
          join pg_class parent on parent.oid = i.inhparent
         where i.inhparent = case when $1::boolean then to_regclass('sendoff.journal_tag')
                                  else to_regclass('sendoff.journal_event') end
           and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
       ) part on true
