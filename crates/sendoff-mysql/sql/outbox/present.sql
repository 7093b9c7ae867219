-- present: whether any of these events is there, committed. Index: primary key.
select count(*) from sendoff.outbox_event e force index (primary) where e.event_id in (:ids)
