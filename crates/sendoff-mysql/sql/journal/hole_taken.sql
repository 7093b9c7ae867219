-- hole_taken: the first of these numbers that is a row, be it of a transaction that is open.
-- Guarantee: none; what it sees may be undone at once. It says where a try is worth while. Index: primary
-- key.
set transaction isolation level read uncommitted;
start transaction;
select cast(min(e.position) as signed)
  from sendoff.journal_event e force index (primary)
 where e.position between :first and :last;
commit
