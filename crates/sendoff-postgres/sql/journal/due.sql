-- due: what was parked and is due, of the active pairs this owner leads; the longest due of
-- each pair first, and in the order of positions where they are due together.
-- Index: (topic, publisher, next_at) of journal_parked, once for each pair.
select p.topic, p.publisher, p.position, p.attempts, p.parked_at, p.next_at, p.error
  from sendoff.journal_cursor c
 cross join lateral (
    select k.*
      from sendoff.journal_parked k
     where k.topic = c.topic and k.publisher = c.publisher and k.next_at <= now()
     order by k.next_at, k.position
     limit $2::bigint) as p
 where c.leader = $1::text and c.status = 'ACTIVE'
