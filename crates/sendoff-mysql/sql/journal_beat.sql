-- journal_beat: says that a node is alive, and whether it is known still. Index: primary key.
update sendoff.journal_node set heartbeat_at = utc_timestamp(6) where owner = :owner;
select count(*) from sendoff.journal_node where owner = :owner
