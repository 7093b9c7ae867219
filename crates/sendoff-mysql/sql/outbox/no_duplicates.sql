-- no_duplicates: fails (1242) if any of these events is there.
-- Guarantee: where the table is partitioned its key cannot tell, so this looks: each event that is
-- found counts twice, and a variable takes one value at most. Two that are written at the same moment
-- do not see each other. Index: primary key.
set @sendoff_found = (select two.n
                        from sendoff.outbox_event e force index (primary)
                             join (select 1 as n union all select 2) two
                       where e.event_id in (:ids))
