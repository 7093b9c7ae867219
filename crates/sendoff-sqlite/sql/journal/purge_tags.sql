-- purge_tags: deletes the tags of one fact. Index: primary key.
delete from journal_tag where position = ?1 and tag in (select value from json_each(?2))
