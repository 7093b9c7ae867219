-- journal_beat: says that a node is alive; no row answers where it is not known any more.
-- Index: primary key.
update sendoff.journal_node set heartbeat_at = clock_timestamp() where owner = $1::text returning true
