-- due: what was parked and is due, of the active pairs this owner leads; the longest due of
-- each pair first. Index: journal_parked_next, once for each pair.
select d.topic, d.publisher, d.position, d.attempts, d.parked_at, d.next_at, d.error
  from (select k.topic, k.publisher, k.position, k.attempts, k.parked_at, k.next_at, k.error,
               row_number() over (partition by k.topic, k.publisher order by k.next_at) as nth
          from sendoff.journal_cursor c
               straight_join sendoff.journal_parked k force index (journal_parked_next)
               on k.topic = c.topic and k.publisher = c.publisher and k.next_at <= utc_timestamp(6)
         where c.leader = :owner and c.status = 'ACTIVE') d
 where d.nth <= :each
 order by d.next_at
