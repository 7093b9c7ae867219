-- session_limit: how long the server lets this session be idle outside of transactions; null where
-- it has no such limit, before version 14.
-- Index: none.
select current_setting('idle_session_timeout', true)
