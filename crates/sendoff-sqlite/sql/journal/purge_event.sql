-- purge_event: deletes one fact. Index: primary key.
delete from journal_event where position = ?1
