-- clock: the time. Reads no table.
select utc_timestamp(6)
