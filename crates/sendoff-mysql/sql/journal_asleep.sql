-- journal_asleep: from now on this session may be as silent as when it was opened; see journal_awake.
-- Index: none.
set session /*M!100600 idle_transaction_timeout */ /*!80000 wait_timeout */ = @sendoff_silence
