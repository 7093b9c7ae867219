-- vitals: the server's clock, and isolation levels above READ COMMITTED that the database or a
-- role has as its default: whose, and which. Our own sessions are set to READ COMMITTED.
-- Index: none; the catalogue.
select clock_timestamp(),
       coalesce(array_agg(found.whose), '{}'::text[]), coalesce(array_agg(found.level), '{}'::text[])
  from (
    select case when s.setrole = 0 then 'database ' || d.datname
                else 'role ' || pg_get_userbyid(s.setrole) end as whose,
           split_part(c.setting, '=', 2) as level
      from pg_database d
      join pg_db_role_setting s on s.setdatabase in (0, d.oid)
     cross join unnest(s.setconfig) as c(setting)
     where d.datname = current_database()
       and split_part(c.setting, '=', 1) = 'default_transaction_isolation'
       and split_part(c.setting, '=', 2) not in ('read committed', 'read uncommitted')
     order by 1, 2
  ) as found
