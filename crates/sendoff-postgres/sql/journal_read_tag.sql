-- journal_read_tag: as journal_read_from_last, for what most models are made of: facts with one tag, of
-- any type or of some, from the last one on that another tag and some types mean, if there is one.
-- Guarantee: as there, at about two thirds of the cost: the server sets up fewer scans.
-- Index: primary key of journal_tag, backwards for the closing fact, whose type is then looked at and
-- never searched by; then primary key.
select s.position, s.recorded_at, s.event_id, s.event_type, s.tags, s.content_type, s.occurred_at,
       case when s.total <= s.most then s.headers end,
       case when s.total <= s.most then s.payload end, s.correlation_id, s.causation_id,
       s.total <= s.most
  from (select f.*, sum(f.size) over in_order as total,
               greatest($6::bigint, first_value(f.size) over in_order) as most
          from (select e.*, octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) as size
                  from sendoff.journal_tag t
                  join sendoff.journal_event e on e.position = t.position
                 where t.tag = $1::text
                   and t.position > coalesce((
                       select c.position - 1
                         from sendoff.journal_tag c
                        where c.tag = $7::text and c.position > $3::bigint and c.position <= $4::bigint
                          and (select e.event_type
                                 from sendoff.journal_event e
                                where e.position = c.position) = any ($8::text[])
                        order by c.position desc
                        limit 1), $3::bigint)
                   and t.position <= $4::bigint
                   and coalesce(e.event_type = any ($2::text[]), true)
                 order by t.position
                 limit $5::bigint) as f
        window in_order as (order by f.position rows unbounded preceding)) as s
 where s.total - s.size <= s.most
 order by s.position
