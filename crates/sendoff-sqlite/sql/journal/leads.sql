-- leads: whether this owner leads the pair under this epoch. Index: primary key.
select exists (select 1 from journal_cursor
                where topic = ?2 and publisher = ?3 and leader = ?1 and epoch = ?4)
