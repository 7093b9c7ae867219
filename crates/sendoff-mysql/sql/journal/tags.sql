-- tags: the tags of what was just inserted. Index: primary key.
insert into sendoff.journal_tag (tag, position) values :rows
