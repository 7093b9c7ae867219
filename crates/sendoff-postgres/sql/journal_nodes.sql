-- journal_nodes: the nodes that are alive, the oldest first.
-- Index: primary key; the table has a row for each node.
select n.owner, n.knows
  from sendoff.journal_node n
 where sendoff.journal_alive(n.owner)
 order by n.started_at, n.owner
