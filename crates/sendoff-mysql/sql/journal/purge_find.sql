-- purge_find: the rows between two positions, voids among them, the lowest first: their tags,
-- whether they are facts, and whether those are too young to go.
-- Guarantee: locks nothing, and so waits for nobody. Index: primary key.
select e.position, e.tags, e.event_id is not null,
       coalesce(e.event_id is not null and e.recorded_at >= :before, 0)
  from sendoff.journal_event e force index (primary)
 where e.position > :after and e.position <= :up_to
 order by e.position
 limit :limit
