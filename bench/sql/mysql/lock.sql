-- lock: the rows among these that are held, with their tokens and types.
-- Guarantee: rows are locked in the order of the list, which is that of their ids: two batches never
-- wait for each other. What follows in the same transaction finds them as they are here.
-- Index: primary key, forced by a join: of a small table the optimiser would read, and wait for, rows
-- that others have locked.
start transaction;
select e.event_id, e.due_at, utc_timestamp(6), e.event_type
  from json_table(:list, '$[*]' columns (id char(32) path '$')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
 where e.status in (0, 2) and e.locked_by is not null
   for update /*!80001 of e */
