-- purge_delete: forget one row that is over.
-- Guarantee: asks again whether it is; what is not in this status stays. Index: primary key.
delete from outbox_event where seq = ?1 and status = ?3 and done_at < ?2
