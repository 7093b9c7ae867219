-- asleep: from now on this session may be as silent as when it was opened; see journal_awake.
-- Index: none.
set session wait_timeout = @sendoff_silence
