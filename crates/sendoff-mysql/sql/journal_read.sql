-- journal_read: facts that a query means, between two positions, in order; each once.
-- Index: those of the searches, then the primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, e.headers, e.payload, e.correlation_id, e.causation_id
  from (select distinct f.position from (:searches) f order by f.position limit :limit) s
       straight_join sendoff.journal_event e force index (primary) on e.position = s.position
 order by s.position
