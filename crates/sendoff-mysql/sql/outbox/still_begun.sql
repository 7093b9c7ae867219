-- still_begun: fails (1305) unless the transaction is the one that `begun` was sent in.
-- Guarantee: a transaction that the server rolled back by itself took the savepoint with it, and with
-- autocommit off the next statement opened another one unasked. Index: none.
release savepoint sendoff_begun
