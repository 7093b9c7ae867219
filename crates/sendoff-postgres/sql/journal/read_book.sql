-- read_book: facts with one tag, of any type or of some, down to the last one of the types `$7`,
-- the highest position first; `$5` at most, and then a closing fact may lie below them.
-- Guarantee: no payload and no headers of more than `$6` bytes together, so that all of them are never
-- more than so many times `$5`; of a fact that has more there is no payload. Rows are read once, and
-- none below the closing fact: the server takes from `recent` only what it is asked for.
-- Index: primary key of journal_tag, backwards; then primary key.
with recent as materialized (
    select e.*, octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $6::bigint as fits
      from sendoff.journal_tag t
      join sendoff.journal_event e on e.position = t.position
     where t.tag = $1::text and t.position > $3::bigint and t.position <= $4::bigint
       and coalesce(e.event_type = any ($2::text[]), true)
     order by t.position desc
     limit $5::bigint
)
select r.position, r.recorded_at, r.event_id, r.event_type, r.tags, r.content_type, r.occurred_at,
       case when r.fits then r.headers end, case when r.fits then r.payload end, r.correlation_id,
       r.causation_id
  from recent r
 limit (select c.nth
          from (select row_number() over () as nth, n.event_type from recent n) as c
         where c.event_type = any ($7::text[])
         limit 1)
