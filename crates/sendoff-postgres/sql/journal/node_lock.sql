-- node_lock: takes the lock that shows whether a node's session is there; it ends with the
-- session. Index: none.
select pg_try_advisory_lock('sendoff.journal_node'::regclass::oid::integer, $1::integer)
