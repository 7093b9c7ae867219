-- rows_after: how the outbox rows beyond a sequence number stand. Scans the table.
select seq, uuid_send(event_id), status::bigint, attempts::bigint
  from sendoff_demo.outbox_event
 where seq > $1
 order by seq
