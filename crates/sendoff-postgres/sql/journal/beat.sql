-- beat: says that a node is alive, and whether that could be written; no row answers where it is
-- not known any more.
-- Guarantee: waits for nobody who has locked the row. Index: primary key.
with free as materialized (
    select n.owner from sendoff.journal_node n where n.owner = $1::text for no key update skip locked
), written as (
    update sendoff.journal_node n set heartbeat_at = clock_timestamp()
      from free f
     where n.owner = f.owner
    returning n.owner
)
select exists (select from written)
  from sendoff.journal_node n
 where n.owner = $1::text
