-- schema_known: the server's version as a number and in its own words, and whether any migration of the journal ever ran here.
-- Guarantee: reads the catalogue only. Index: none.
select current_setting('server_version_num')::integer,
       to_regclass('sendoff.journal_schema') is not null,
       version()
