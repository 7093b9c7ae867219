-- rows_after: how the outbox rows beyond a sequence number stand. Index: outbox_event_seq.
select seq, event_id, status, attempts from sendoff_demo_outbox_event where seq > ? order by seq
