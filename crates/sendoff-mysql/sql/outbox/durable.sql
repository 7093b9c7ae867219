-- durable: a commit of our own, after which everything outlives a crash of the server that was visible
-- before it was sent; see `durable.rs`.
-- Guarantee: nobody ever sees the row. It needs nothing that a settlement does not need. Index: primary key.
start transaction;
insert into sendoff.outbox_tally_delta (part, event_type, status, count) values (:part, '', 0, 0);
delete from sendoff.outbox_tally_delta where part = :part and event_type = '' and status = 0;
commit
