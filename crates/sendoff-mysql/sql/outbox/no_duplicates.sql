-- no_duplicates: fails (1172) if any of these events is there.
-- Guarantee: where the table is partitioned its key cannot tell, so this looks: each event that is
-- found counts twice, and a variable takes one value at most. Two that are written at the same moment
-- do not see each other, nor what was committed after the transaction's snapshot. Locks nothing: a subquery in a
-- `set` would lock the gap behind the last event, and every other writer would wait for this transaction's end.
-- Index: primary key.
select two.n
  into @sendoff_found
  from sendoff.outbox_event e force index (primary)
       join (select 1 as n union all select 2) two
 where e.event_id in (:ids)
