-- settle_release: given up as they were, of rows that `lock` found. Index: primary key.
update sendoff.outbox_event e force index (primary)
   set e.due_at = utc_timestamp(6), e.locked_by = null
 where e.event_id in (:ids)
