-- settle_delete: delivered and forgotten, of rows that `lock` found. Index: primary key.
delete e from sendoff.outbox_event e force index (primary) where e.event_id in (:ids)
