-- journal_awake: from now on the server ends this session if it is silent for longer than this within a
-- transaction, because others wait for it. MySQL has such a limit only for whole sessions. Index: none.
set session /*M!100600 idle_transaction_timeout */ /*!80000 wait_timeout */ = :seconds
