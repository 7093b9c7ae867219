-- schema_set: remember a version.
-- Guarantee: runs in the transaction of the migration it speaks of. Index: primary key.
insert into journal_schema (version) values (?1)
