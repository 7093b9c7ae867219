-- journal migration 4: conditions that were read in another run of the server do not hold.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- include journal_clash
