-- settle_done: delivered and kept, of rows that `lock` found. Index: primary key.
update sendoff.outbox_event e force index (primary)
   set e.status = 1, e.due_at = null, e.done_at = utc_timestamp(6), e.losses = 0,
       e.locked_by = null
 where e.event_id in (:ids)
