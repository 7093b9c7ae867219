-- partition_idle: how long the session that keeps partitions may be silent ($1), where the server can
-- limit that (version 14 and newer).
-- Guarantee: a maintainer that froze gives its place up. Index: none.
select set_config(name, $1::text, false) from pg_settings where name = 'idle_session_timeout'
