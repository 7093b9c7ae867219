-- earlier: what earlier runs left: orders, the last one's number, and events that are dead.
select count(*), coalesce(max(number), 0),
       (select count(*) from sendoff_demo.outbox_event where status = 3)
  from sendoff_demo.orders
