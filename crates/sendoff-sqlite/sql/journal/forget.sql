-- forget: forgets the nodes that have been dead for so long. Index: none; there is a row for each.
delete from journal_node where owner <> ?1 and heartbeat_at + lease + ?3 < ?2
