-- note: rows that a transaction has locked, with what shall become of each, as `lock` notes them.
-- Reads no table.
set @sendoff_rows = :rows
