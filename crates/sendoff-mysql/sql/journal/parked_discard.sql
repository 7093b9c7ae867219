-- parked_discard: forgets what is parked. Index: primary key.
delete from sendoff.journal_parked
 where (:topic is null or topic = :topic) and (:publisher is null or publisher = :publisher)
   and (:position is null or position = :position)
