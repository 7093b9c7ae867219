-- journal_read: facts that a query means, between two positions, in order, as long as they fit into so
-- many bytes together; the first always. Of the first that does not fit no payload and no headers.
-- Index: those of the function journal_search, then the primary key.
select s.position, s.recorded_at, s.event_id, s.event_type, s.tags, s.content_type, s.occurred_at,
       case when s.total <= s.most then s.headers end,
       case when s.total <= s.most then s.payload end, s.correlation_id, s.causation_id,
       s.total <= s.most
  from (select f.*, sum(f.size) over in_order as total,
               greatest($7::bigint, first_value(f.size) over in_order) as most
          from (select e.*, octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) as size
                  from sendoff.journal_search($1::smallint[], $2::text[], $3::text[], $4::bigint,
                                              $5::bigint, $6::bigint) as found(position)
                  join sendoff.journal_event e on e.position = found.position) as f
        window in_order as (order by f.position rows unbounded preceding)) as s
 where s.total - s.size <= s.most
 order by s.position
