-- beat: says that a node is alive; changes nothing where it is not known any more.
-- Index: primary key.
update journal_node set heartbeat_at = ?2 where owner = ?1
