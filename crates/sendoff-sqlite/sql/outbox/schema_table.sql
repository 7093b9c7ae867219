-- schema_table: where each outbox of this file remembers its version.
-- Guarantee: our own table, because user_version belongs to the application; one row for each outbox,
-- found whatever the case of its name, as SQLite finds tables.
create table if not exists outbox_schema (
    table_name text not null primary key collate nocase,
    version    integer not null
) strict
