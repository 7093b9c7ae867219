-- parked_retry: makes what is parked due now. Index: primary key.
update sendoff.journal_parked
   set next_at = utc_timestamp(6)
 where (:topic is null or topic = :topic) and (:publisher is null or publisher = :publisher)
   and (:position is null or position = :position)
