-- limit_session: the server ends this session if it is silent for longer than `$1` milliseconds, before it takes
-- a decision's locks: a statement of its own, in one round trip with hold_session, since what that sets is
-- undone where it fails, and the locks that it had by then are not.
-- Guarantee: until journal_append_session or journal_release_session takes it back. Index: none.
select set_config('idle_session_timeout', $1::integer::text, false)
