-- settled: whether any of these events is there, and no open transaction has one of them in hand.
-- Guarantee: a row that was inserted and not yet committed is locked by whoever inserted it, so this
-- fails at once rather than overlook it. Index: primary key, forced by a join.
select e.event_id
  from json_table(:list, '$[*]' columns (id char(32) path '$')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
   for update /*!80001 of e */ nowait
