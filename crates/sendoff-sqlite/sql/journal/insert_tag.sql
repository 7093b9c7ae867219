-- insert_tag: one tag of a fact. Index: primary key.
insert into journal_tag (tag, position) values (?1, ?2)
