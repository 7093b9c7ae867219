-- savepoint: fails (1305) unless a transaction is open, and marks where the append begins.
-- Guarantee: outside of a transaction a savepoint ends with the statement that set it. Index: none.
savepoint sendoff_append;
release savepoint sendoff_append;
savepoint sendoff_append
