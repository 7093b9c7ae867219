-- awake: from now on the server ends this session if it is silent for longer than this, because
-- others wait for it. For MySQL, which has no limit for transactions alone. Index: none.
set session wait_timeout = :seconds
