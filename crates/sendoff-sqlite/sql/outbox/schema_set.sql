-- schema_set: remember the version of one outbox.
-- Guarantee: runs in the transaction of the migration it speaks of. Index: primary key.
insert into outbox_schema (table_name, version) values (?1, ?2)
on conflict (table_name) do update set version = excluded.version
