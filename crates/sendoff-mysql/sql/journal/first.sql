-- first: notes the position of the first fact that was just inserted; fails (1242) if one of
-- these numbers was closed meanwhile.
-- Guarantee: a locking read, which sees what is committed whatever the transaction saw before. At READ
-- COMMITTED it locks nothing that is not there. Index: primary key of journal_hole, from its end.
set @sendoff_first = ((select last_insert_id())
                      union all
                      (select 1 from sendoff.journal_hole h force index (primary)
                        where h.last_position >= last_insert_id()
                          and h.first_position < last_insert_id() + :rows
                        lock in share mode))
