-- in_transaction: leaves a mark that lasts exactly as long as the transaction.
-- Guarantee: fails in an aborted transaction; outside of one it has no effect (the server warns), so
-- that the `insert` after it in the pipeline inserts nothing and commits nothing. Index: none.
set local sendoff_capture.in_transaction = 'yes'
