-- parked_discard: forgets what is parked. Index: primary key.
delete from journal_parked
 where (?1 is null or topic = ?1) and (?2 is null or publisher = ?2)
   and (?3 is null or position = ?3)
