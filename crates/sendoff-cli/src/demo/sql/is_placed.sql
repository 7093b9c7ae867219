-- is_placed: whether an order with this event was committed. Index: unique (event_id).
select exists (select 1 from sendoff_demo.orders where event_id = ?)
