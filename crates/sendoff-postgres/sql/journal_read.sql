-- journal_read: facts that a query means, between two positions, in order.
-- Index: those of the function journal_search, then the primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, e.headers, e.payload, e.correlation_id, e.causation_id
  from sendoff.journal_search($1::smallint[], $2::text[], $3::text[], $4::bigint, $5::bigint,
                              $6::bigint) as s(found)
  join sendoff.journal_event e on e.position = s.found
 order by s.found
