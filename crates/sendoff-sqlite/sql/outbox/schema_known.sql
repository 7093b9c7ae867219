-- schema_known: whether any outbox ever lived in this file.
-- Guarantee: reads only. Index: none, the catalogue is small.
select exists (select 1 from sqlite_schema where type = 'table' and name = 'outbox_schema')
