-- rows_after: how the outbox rows beyond a sequence number stand. Index: primary key.
select seq, event_id, status, attempts from outbox_event where seq > ?1 order by seq
