-- orders_after: what was committed beyond a number. Index: primary key.
select number, event_id, digest from sendoff_demo.orders where number > ? order by number
