-- leave: removes a node; whatever it led is nobody's. Index: primary key.
delete from sendoff.journal_node where owner = :owner
