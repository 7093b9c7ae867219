-- once: remember that a consumer saw an event; the second time nothing is inserted.
-- Guarantee: the file has one writer, so nobody else has seen it meanwhile. Index: primary key.
insert into inbox_event (consumer, event_id, seen_at) values (?1, ?2, ?3)
on conflict do nothing
