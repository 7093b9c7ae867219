-- begun: leaves a mark that lasts exactly as long as the transaction. Index: none.
savepoint sendoff_begun
