-- parked_retry: makes what is parked due now. Index: primary key.
update journal_parked set next_at = ?4
 where (?1 is null or topic = ?1) and (?2 is null or publisher = ?2)
   and (?3 is null or position = ?3)
