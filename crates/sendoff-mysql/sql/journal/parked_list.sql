-- parked_list: what is parked, in the order of pairs and positions, after a given one.
-- Index: primary key.
select k.topic, k.publisher, k.position, k.attempts, k.parked_at, k.next_at, k.error
  from sendoff.journal_parked k
 where (:topic is null or k.topic = :topic) and (:publisher is null or k.publisher = :publisher)
   and (:after_topic is null
        or (k.topic, k.publisher, k.position) > (:after_topic, :after_publisher, :after_position))
 order by k.topic, k.publisher, k.position
 limit :limit
