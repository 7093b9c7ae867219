-- walk: the numbers above a position that are rows, in order. Index: primary key.
select e.position
  from sendoff.journal_event e force index (primary)
 where e.position > :after
 order by e.position
 limit :limit
