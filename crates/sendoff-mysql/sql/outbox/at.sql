-- at: notes the time for the insert that follows.
-- Guarantee: reads no table. Index: none.
set @sendoff_at = utc_timestamp(6)
