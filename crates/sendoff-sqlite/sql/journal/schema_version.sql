-- schema_version: the newest version that ran here. Index: primary key.
select coalesce(max(version), 0) from journal_schema
