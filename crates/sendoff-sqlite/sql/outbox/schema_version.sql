-- schema_version: the version of one outbox.
-- Guarantee: reads only; no row means that it was never installed. Index: primary key.
select version from outbox_schema where table_name = ?1
