-- set_aside: a row that cannot be held is dead, so that it keeps no other from being claimed.
-- Guarantee: in the transaction of the claim that found it. Index: primary key.
update outbox_event
   set status = 3, done_at = ?2, last_error = ?3, locked_by = null
 where seq = ?1 and status in (0, 2)
