-- journal_tail: the rows above a position, voids among them, in order. Index: primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, e.headers, e.payload, e.correlation_id, e.causation_id
  from sendoff.journal_event e force index (primary)
 where e.position > :after
 order by e.position
 limit :limit
