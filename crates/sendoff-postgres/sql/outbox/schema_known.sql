-- schema_known: the server's version as a number and in its own words, and whether any migration ever ran here.
-- Guarantee: reads the catalogue only. Index: none.
select current_setting('server_version_num')::integer,
       to_regclass('sendoff.outbox_schema') is not null,
       version()
