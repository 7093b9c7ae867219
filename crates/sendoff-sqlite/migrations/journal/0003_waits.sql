-- journal migration 3: where publishers wait.
-- Guarantee: runs once, inside the transaction that also writes journal_schema.
--
-- The fact that a publisher waits at because it failed, and since when.
alter table journal_cursor add column waits_at integer;
alter table journal_cursor add column waits_since integer
