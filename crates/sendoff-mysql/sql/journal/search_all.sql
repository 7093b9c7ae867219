-- search_all: positions of all facts; for a union. Index: primary key.
(select e.position
   from sendoff.journal_event e force index (primary)
  where e.position > :after and e.position <= :up_to and e.event_id is not null
  order by e.position
  limit :limit :locking)
