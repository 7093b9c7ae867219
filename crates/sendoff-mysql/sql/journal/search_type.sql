-- search_type: positions of facts of a type; for a union. Index: (event_type, position).
(select e.position
   from sendoff.journal_event e force index (journal_event_type)
  where e.event_type = :type and e.position > :after and e.position <= :up_to
  order by e.position
  limit :limit :locking)
