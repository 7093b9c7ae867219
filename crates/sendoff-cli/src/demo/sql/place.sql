-- place: a new order. Its event is written in the same transaction.
insert into orders (number, event_id, digest, customer, total_cents)
values (?1, ?2, ?3, ?4, ?5)
