-- schema_version: the newest migration of the journal that ran here. Index: primary key.
select coalesce(max(version), 0) from sendoff.journal_schema
