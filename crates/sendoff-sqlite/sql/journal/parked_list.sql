-- parked_list: what is parked, in the order of pairs and positions, after a given one.
-- Index: primary key.
select topic, publisher, position, attempts, parked_at, next_at, error
  from journal_parked
 where (?1 is null or topic = ?1) and (?2 is null or publisher = ?2)
   and (?3 is null or (topic, publisher, position) > (?3, ?4, ?5))
 order by topic, publisher, position
 limit ?6
