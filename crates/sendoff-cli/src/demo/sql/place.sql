-- place: a new order. Its event is written in the same transaction.
insert into sendoff_demo.orders (number, event_id, digest, customer, total_cents)
values (?, ?, ?, ?, ?)
