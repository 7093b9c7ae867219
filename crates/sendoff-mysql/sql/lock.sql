-- lock: the rows among these that are held, with their tokens and types.
-- Guarantee: rows are locked in the order of their ids: two batches never wait for each other. What
-- follows in the same transaction finds them as they are here. Index: primary key.
start transaction;
select e.event_id, e.due_at, utc_timestamp(6), e.event_type
  from sendoff.outbox_event e force index (primary)
 where e.event_id in (:ids)
   and e.status in (0, 2) and e.locked_by is not null
 order by e.event_id
   for update
