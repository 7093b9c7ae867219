-- range_since: whether a fact of a partition was recorded at a time or later.
-- Locks out nobody. Index: none; it is read once, before it goes.
select exists (select from sendoff.journal_table_partition where recorded_at >= $1::timestamptz)
