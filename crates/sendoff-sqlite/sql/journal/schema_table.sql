-- schema_table: where the journal remembers its version.
create table if not exists journal_schema (
    version integer not null primary key
) strict
