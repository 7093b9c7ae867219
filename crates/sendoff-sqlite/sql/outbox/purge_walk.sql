-- purge_walk: the next rows in the order of their birth, and whether each may go.
-- Guarantee: reads only, and no payload. A row is done after it was created, so the walk ends at the
-- first one created since the cutoff, and no index on done_at has to be paid for at every delivery.
-- Index: primary key.
select seq, created_at, status = 1 and done_at < ?2 as over
  from outbox_event
 where seq > ?1
 order by seq
 limit ?3
