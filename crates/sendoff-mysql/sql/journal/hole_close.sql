-- hole_close: closes the run that journal_hole_open wrote down; fails (1205, 3572) if an open
-- transaction has one of its numbers, and (1242) if one is a row.
-- Guarantee: at this isolation the read locks the gap itself. So when it answers nobody has a row in it,
-- and whoever has a number and no row yet cannot insert it before this is committed; after its insert
-- it finds what is written here, and takes another number. Waits for nobody. Index: primary key.
set @sendoff_taken = (select count(*) from sendoff.journal_event e force index (primary)
                       where e.position between :first and :last for update nowait);
set @sendoff_gate = (select 1 union all select 1 from dual where @sendoff_taken <> 0);
commit
