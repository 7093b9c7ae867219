-- turn: how long the statements of this session wait for a row that somebody has locked. Reads no table.
set session innodb_lock_wait_timeout = :seconds
