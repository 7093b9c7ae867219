-- tables: those whose names begin with the demo's prefix, their kind, and what their comment says.
select table_name, table_type, table_comment
  from information_schema.tables
 where table_schema = database() and left(table_name, char_length('sendoff_demo_')) = 'sendoff_demo_'
 order by table_name
