-- forget_orders: orders the checker has judged, from a file that nobody will see again.
delete from orders where number <= ?1
