-- lock: keeps a second demo away from the same tables, until this session ends. Waits so many seconds for
-- the session of a demo that was killed, of whose end the server has not heard yet.
select get_lock(left(concat('sendoff_demo ', database()), 64), ?)
