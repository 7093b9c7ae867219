-- node_lock: takes the lock that shows whether a node's session is there; it ends with the
-- session. Index: none.
select get_lock(:name, 0)
