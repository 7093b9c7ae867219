-- routines: those whose names begin with the demo's prefix, and their kind.
select routine_name, routine_type
  from information_schema.routines
 where routine_schema = database() and left(routine_name, char_length('sendoff_demo_')) = 'sendoff_demo_'
 order by routine_name
