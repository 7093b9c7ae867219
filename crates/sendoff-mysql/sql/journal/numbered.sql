-- numbered: as journal_first, for sessions of ours; fails (1690) if any number from the first of
-- these facts on was closed meanwhile.
-- Guarantee: sees what was committed when the insert was over, because these sessions read at READ
-- COMMITTED. It may fail for a number that is not closed itself; journal_first does not, and costs
-- more. Index: primary key of journal_hole, of which it reads the end.
set @sendoff_first = last_insert_id(),
    @sendoff_gate = exp(if((select max(h.last_position) from sendoff.journal_hole h)
                           >= last_insert_id(), 9999, 0))
