-- migration 5: events from other languages, as JSON too, with errors that show nothing of a payload.
-- Guarantee: runs once, in the transaction that also writes outbox_schema. Nothing but functions.

-- include sendoff_emit
