-- doing: what a session was last told to do; no row where this role may not know.
-- Guarantee: the text may hold values, so it is asked for by itself and by nothing else. Index: none.
select left(query, 500)
  from pg_stat_activity
 where pid = $1::integer
   and (pg_has_role(current_user, 'pg_read_all_stats', 'usage') or usename = current_user)
