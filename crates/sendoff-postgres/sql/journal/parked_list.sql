-- parked_list: what is parked, in the order of pairs and positions, after a given one.
-- Index: primary key.
select topic, publisher, position, attempts, parked_at, next_at, error
  from sendoff.journal_parked
 where ($1::text is null or topic = $1::text)
   and ($2::text is null or publisher = $2::text)
   and ($3::text is null or (topic, publisher, position) > ($3::text, $4::text, $5::bigint))
 order by topic, publisher, position
 limit $6::bigint
