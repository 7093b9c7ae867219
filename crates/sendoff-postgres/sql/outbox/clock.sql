-- clock: the time. Reads no table.
select now()
