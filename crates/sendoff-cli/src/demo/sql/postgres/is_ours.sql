-- is_ours: whether the schema is there (null where not), and whether a demo made it.
select obj_description(to_regnamespace('sendoff_demo'), 'pg_namespace') is not distinct from 'sendoff demo'
 where to_regnamespace('sendoff_demo') is not null
