-- set_aside: notes a row that makes statements fail, for `settle` to end it, so that it keeps no other
-- from being claimed.
-- Guarantee: only while it is pending and due when it was. Index: primary key.
start transaction;
select json_arrayagg(json_array(hex(e.event_id), e.seq, 3, hex(e.event_type), null, null, hex(:error), null,
                                hex(e.ordering_key), 1, 1))
  into @sendoff_rows
  from sendoff.outbox_event e force index (primary)
 where e.event_id = :id and e.due_at = :due_at and e.status in (0, 2)
   for update
