-- head: the last position that was taken and committed.
-- Guarantee: also where its row is gone. Index: none; the catalogue of sequences is small.
select coalesce((select seq from sqlite_sequence where name = 'journal_event'), 0)
