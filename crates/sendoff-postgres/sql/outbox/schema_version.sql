-- schema_version: the newest migration that ran here. Index: primary key.
select coalesce(max(version), 0) from sendoff.outbox_schema
