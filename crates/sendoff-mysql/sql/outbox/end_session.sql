-- end_session: ends a session, and what it had not committed.
-- Guarantee: waits for nobody. Its user may, and so may whoever may end the sessions of others.
-- Index: none.
kill :session
