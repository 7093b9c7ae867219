-- purge_hold: lets one transaction at a time delete; fails (1242) if it is not so any more that
-- rows up to :last may go: some were let go since they were found, a cursor was put back, or something
-- was parked.
-- Guarantee: after an error the server leaves the rest of a text out. Index: primary keys; there is a row
-- for each pair and for each fact that was parked.
set @sendoff_gone = (select g.position from sendoff.journal_gone g where g.one = 1 for update);
set @sendoff_gate = (select 1 union all select 1 from dual
                      where @sendoff_gone <> :gone
                         or exists (select 1 from sendoff.journal_cursor c
                                     where c.last_position < :last)
                         or exists (select 1 from sendoff.journal_parked k
                                     where k.position <= :last))
