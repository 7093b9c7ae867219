-- received: the handler's record. Index: primary key.
select event_id, run, attempt, digest from sendoff_demo.deliveries order by number
