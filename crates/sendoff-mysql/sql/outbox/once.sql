-- What a consumer has seen.

-- once: remember that a consumer saw an event; the second time it fails (1062).
-- Guarantee: where another transaction is open that saw the same, it waits for that one's end, as long as the
-- session waits for a row lock. Index: primary key.
--
-- once_durable: a commit of our own, after which what another transaction has remembered outlives a crash of the
-- server; see `durable.rs`. It needs nothing that forgetting does not need.
-- Guarantee: nobody ever sees the row, whose consumer has a name that none can have. Index: primary key.
-- text once
insert into sendoff.inbox_event (consumer, event_id, seen_at) values (:consumer, :id, utc_timestamp(6))

-- text once_durable
start transaction;
insert into sendoff.inbox_event (consumer, event_id, seen_at) values ('', :id, utc_timestamp(6));
delete from sendoff.inbox_event where consumer = '' and event_id = :id;
commit
