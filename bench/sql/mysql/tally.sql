-- tally: adds what a settlement ended to the counters, in its transaction, just before its end.
-- Guarantee: rows come in the order of their key, and after the events' own: two settlements never
-- wait for each other. Index: primary key.
insert into sendoff.outbox_tally (event_type, status, count)
values :rows
on duplicate key update count = count + values(count)
