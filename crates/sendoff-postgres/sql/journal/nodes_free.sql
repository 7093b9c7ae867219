-- nodes_free: those of some nodes whose rows nobody has locked. One that is silent has no other
-- excuse; who has locked the row keeps it from saying that it is alive.
-- Guarantee: waits for nobody. Index: primary key.
select n.owner
  from sendoff.journal_node n
 where n.owner = any ($1::text[])
   for no key update skip locked
