-- schema_known: whether any journal ever lived in this file. Index: none, the catalogue is small.
select exists (select 1 from sqlite_schema where type = 'table' and name = 'journal_schema')
