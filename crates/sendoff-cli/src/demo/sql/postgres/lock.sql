-- lock: keeps a second demo away from the same tables, until this session ends. Waits up to lock_timeout
-- for the session of a demo that was killed, of whose end the server has not heard yet.
select pg_advisory_lock(hashtextextended('sendoff demo sendoff_demo', 0))::text
