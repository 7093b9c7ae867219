-- in_transaction: fails (1305) unless a transaction is open.
-- Guarantee: outside of one a savepoint ends with the statement that set it. Sent in front of every
-- insert, in one text: after an error the server leaves the rest of a text out. Index: none.
savepoint sendoff_write;
release savepoint sendoff_write
