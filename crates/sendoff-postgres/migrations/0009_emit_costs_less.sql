-- migration 9: an event from SQL costs less.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nothing but functions.

-- include sendoff_emit
