-- receive: one line of the handler's record.
insert into sendoff_demo.deliveries (event_id, run, attempt, digest) values (?, ?, ?, ?)
