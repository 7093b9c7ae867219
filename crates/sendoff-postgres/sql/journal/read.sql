-- Facts that a query means, between two positions, in order, as long as they fit into so many bytes
-- together; the first always. Of the first that does not fit no payload and no headers.
-- Index: those of the function journal_search, then the primary key.
--
-- read_from_last: from the last fact on that another query means.
-- Guarantee: cost grows with what is found from there on. Index: primary key of journal_tag, backwards;
-- (event_type, position); then the same.
-- text read, read_from_last
select s.position, s.recorded_at, s.event_id, s.event_type, s.tags, s.content_type, s.occurred_at,
       case when s.total <= s.most then s.headers end,
       case when s.total <= s.most then s.payload end, s.correlation_id, s.causation_id
  from (select f.*, sum(f.size) over in_order as total,
               greatest($7::bigint, first_value(f.size) over in_order) as most
          from (select e.*, octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) as size
                  from sendoff.journal_search($1::smallint[], $2::text[], $3::text[], $4::bigint,  -- [read]
                                              $5::bigint, $6::bigint) as found(position)           -- [read]
                  from {closing}                                                                   -- [read_from_last]
                 cross join lateral                                                                -- [read_from_last]
                       sendoff.journal_search($1::smallint[], $2::text[], $3::text[],              -- [read_from_last]
                                              closing.above, $5::bigint, $6::bigint)               -- [read_from_last]
                       as found(position)                                                          -- [read_from_last]
                  join sendoff.journal_event e on e.position = found.position) as f
        window in_order as (order by f.position rows unbounded preceding)) as s
 where s.total - s.size <= s.most
 order by s.position

-- part closing
(select coalesce(max(hit.position) - 1, $4::bigint) as above
   from unnest($8::smallint[], $9::text[], $10::text[]) as s(kind, tags, types)
  cross join lateral (
     (select t.position
        from sendoff.journal_tag t
        join sendoff.journal_event c on c.position = t.position
       where s.kind = 1 and t.tag = (s.tags::text[])[1]
         and t.position > $4::bigint and t.position <= $5::bigint
         and c.tags @> s.tags::text[]
         and (s.types is null or c.event_type = any (s.types::text[]))
       order by t.position desc
       limit 1)
     union all
     (select c.position
        from sendoff.journal_event c
       where s.kind = 2 and c.event_type = (s.types::text[])[1]
         and c.position > $4::bigint and c.position <= $5::bigint
       order by c.position desc
       limit 1)
     union all
     (select c.position
        from sendoff.journal_event c
       where s.kind = 3 and c.position > $4::bigint and c.position <= $5::bigint
       order by c.position desc
       limit 1)
  ) as hit
) as closing
