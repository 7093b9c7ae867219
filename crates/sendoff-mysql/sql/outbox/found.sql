-- found: which rows of its list `lock` found, by their places, from 1, and when; NULL for none.
-- Reads no table.
select @sendoff_found, cast(@sendoff_at as datetime(6))
