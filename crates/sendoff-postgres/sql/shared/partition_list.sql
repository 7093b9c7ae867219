-- Every partition but the tail with its range. One row at least.
-- Index: the catalogue's, and one of the tail's for its beginning.

-- partition_list: of the outbox; and, in each row, the time and the oldest row of the tail.
-- Guarantee: the bounds are read in the session's time zone, which is in them.
-- Index: outbox_event_pmax_created.
-- text partition_list
select now() as asked_at,
       (select created_at from sendoff.outbox_event_pmax order by created_at limit 1)
           as tail_oldest,
       part.name, part.same_schema,
       (regexp_match(part.bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
       (regexp_match(part.bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from {parts}

-- ranges: of the facts or of their tags; and, in each row, the lowest position in the tail.
-- Index: primary key of journal_event_pmax, (position) of journal_tag_pmax.
-- text ranges
select case when $1::boolean
            then (select position from sendoff.journal_tag_pmax order by position limit 1)
            else (select position from sendoff.journal_event_pmax order by position limit 1)
       end as tail_lowest,
       part.name, part.same_schema,
       (regexp_match(part.bound, 'FROM \(''(\d+)''\)'))[1]::bigint as from_position,
       (regexp_match(part.bound, 'TO \(''(\d+)''\)'))[1]::bigint as to_position
  from {parts}

-- part parts
(select) one
left join (
      select c.relname::text as name, c.relnamespace = parent.relnamespace as same_schema,
             pg_get_expr(c.relpartbound, c.oid) as bound
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        join pg_class parent on parent.oid = i.inhparent
       where i.inhparent = to_regclass('sendoff.outbox_event')                            -- [partition_list]
       where i.inhparent = case when $1::boolean then to_regclass('sendoff.journal_tag')  -- [ranges]
                                else to_regclass('sendoff.journal_event') end             -- [ranges]
         and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
     ) part on true
