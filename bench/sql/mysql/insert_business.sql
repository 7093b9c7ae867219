-- insert_business: what the transaction is about. Index: primary key.
insert into bench_order (customer, total) values (?, 990)
