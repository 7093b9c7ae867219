-- journal_first: notes the position of the first fact that was just inserted. Index: none.
set @sendoff_first = last_insert_id()
