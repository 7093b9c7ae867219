-- routines: procedures that are there and may be seen, with what their comments say.
-- Guarantee: reads the catalogue only. Index: none.
select routine_name, routine_comment
  from information_schema.routines
 where routine_schema = :database and routine_type = 'PROCEDURE'
