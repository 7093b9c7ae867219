-- nodes: the nodes that are alive, the oldest first; how long after it came each was heard of last, and
-- how long ago.
-- Guarantee: one that was silent for its lease is not among them, nor one that was heard of too far in
-- the future, before the clock stepped back. Index: none; there is a row for each node.
select owner, knows, heartbeat_at - started_at, ?1 - heartbeat_at
  from journal_node
 where abs(?1 - heartbeat_at) < lease
 order by started_at, owner
