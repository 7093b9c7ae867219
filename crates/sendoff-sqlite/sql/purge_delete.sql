-- purge_delete: forget one delivered row.
-- Guarantee: asks again whether it is over; what is not DONE stays. Index: primary key.
delete from outbox_event where seq = ?1 and status = 1 and done_at < ?2
