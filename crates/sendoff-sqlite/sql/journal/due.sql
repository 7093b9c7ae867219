-- due: what was parked and is due, of the active pairs this owner leads; the longest due of
-- each pair first, and in the order of positions where they are due together.
-- Index: journal_parked_due, once for each pair.
select p.topic, p.publisher, p.position, p.attempts, p.parked_at, p.next_at, p.error
  from journal_cursor c
  join journal_parked p on p.topic = c.topic and p.publisher = c.publisher
   and p.position in (select k.position from journal_parked k
                       where k.topic = c.topic and k.publisher = c.publisher and k.next_at <= ?2
                       order by k.next_at, k.position
                       limit ?3)
 where c.leader = ?1 and c.status = 'ACTIVE'
 order by p.topic, p.publisher, p.next_at, p.position
