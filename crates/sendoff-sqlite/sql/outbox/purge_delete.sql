-- purge_delete: forget one row that is over.
-- Guarantee: asks again whether it is; what is not in this status stays, and so does what parks a key.
-- Index: primary key; then that of outbox_key.
delete from outbox_event as e
 where seq = ?1 and status = ?3 and done_at < ?2
   and not exists (select 1 from outbox_key k
                    where k.ordering_key = e.ordering_key and k.parked_by = e.event_id)
