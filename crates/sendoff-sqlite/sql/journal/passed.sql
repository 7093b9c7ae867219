-- passed: the last position that everybody has passed and nobody has parked; none where nobody
-- follows the journal. Index: none; there is a row for each pair and for each fact that was parked.
select min(up_to)
  from (select last_position as up_to from journal_cursor
        union all
        select position - 1 from journal_parked)
