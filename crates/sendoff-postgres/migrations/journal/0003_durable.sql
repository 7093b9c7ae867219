-- journal migration 3: facts commit durably, whatever their session says.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- include journal_append
