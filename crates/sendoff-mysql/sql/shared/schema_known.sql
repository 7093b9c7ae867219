-- schema_known: the server's version, and whether any migration ever ran here.
-- Guarantee: reads the catalogue only. Index: none.
select version(),
       (select count(*) from information_schema.tables
         where table_schema = :database and table_name = :table)
