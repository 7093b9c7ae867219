-- settled: whether any of these events is there, and no open transaction has one of them in hand.
-- Guarantee: a row that was inserted and not yet committed is locked by whoever inserted it, so this
-- fails at once rather than overlook it. Index: primary key.
select e.event_id from sendoff.outbox_event e force index (primary)
 where e.event_id in (:ids) limit 1 for update nowait
