-- extend: holds that last longer, of rows that `lock` found.
-- Guarantee: the new due time is never the old one of any of them. Index: primary key.
update sendoff.outbox_event e force index (primary)
   set e.due_at = :until where e.event_id in (:ids);
commit
