-- journal migration 5: where publishers wait.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- The fact that a publisher waits at because it failed, and since when.
alter table sendoff.journal_cursor add column waits_at bigint, add column waits_since timestamptz;
