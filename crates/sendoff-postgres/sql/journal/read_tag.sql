-- read_tag: facts with one tag, of any type or of some, between two positions, in order; `$5` at
-- most.
-- Guarantee: no payload and no headers of more than `$6` bytes together, so that all of them are never
-- more than so many times `$5`; of a fact that has more there is no payload. A bound for each is cheaper
-- than one for all, for which every row would have to wait for the others.
-- Index: primary key of journal_tag; then primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type, e.occurred_at,
       case when octet_length(e.payload) + pg_column_size(e.headers) <= $6::bigint then e.headers end,
       case when octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $6::bigint
            then e.payload end, e.correlation_id, e.causation_id
  from sendoff.journal_tag t
  join sendoff.journal_event e on e.position = t.position
 where t.tag = $1::text and t.position > $3::bigint and t.position <= $4::bigint
   and coalesce(e.event_type = any ($2::text[]), true)
 order by t.position
 limit $5::bigint
