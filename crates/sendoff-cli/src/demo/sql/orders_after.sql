-- orders_after: what was committed beyond a number. Index: primary key.
select number, event_id, digest from orders where number > ?1 order by number
