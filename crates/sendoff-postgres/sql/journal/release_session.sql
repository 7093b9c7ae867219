-- release_session: lets go of whatever journal_hold_session took, and takes back what it set; `$1` is
-- what the session's limit of silence was. A journal's sessions have no limit for locks of their own.
-- Guarantee: carried out any number of times, the session is as it was. Index: none.
select pg_advisory_unlock_all(),
       set_config('lock_timeout', '0', false), set_config('idle_session_timeout', $1::text, false)
