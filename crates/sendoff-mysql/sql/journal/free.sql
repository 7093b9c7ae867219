-- free: fails (1205, 3572) if an open transaction has one of these numbers.
-- Guarantee: waits for nobody. What is missing and free now was rolled back, or is about to be inserted
-- by somebody who then gets a duplicate. Index: primary key.
select e.position from sendoff.journal_event e force index (primary)
 where e.position between :first and :last for update nowait
