-- beat: says that a node is alive, and whether it is known still.
-- Guarantee: fails (1205, 3572) where somebody has locked the row, and waits for nobody.
-- Index: primary key.
start transaction;
select n.owner from sendoff.journal_node n where n.owner = :owner for update nowait;
update sendoff.journal_node set heartbeat_at = utc_timestamp(6) where owner = :owner;
commit;
select count(*) from sendoff.journal_node where owner = :owner
