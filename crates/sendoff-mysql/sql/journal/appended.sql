-- appended: the first position of the last insert, and its time in microseconds. Index: none.
select cast(@sendoff_first as signed),
       cast(timestampdiff(microsecond, '1970-01-01', @sendoff_at) as signed)
