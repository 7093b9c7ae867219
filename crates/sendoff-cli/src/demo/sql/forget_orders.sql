-- forget_orders: orders the checker has judged, from tables that nobody will see again.
delete from sendoff_demo.orders where number <= ?
