-- hold: the second half of a claim, for the rows it locked.
-- Guarantee: a holder who vanished is counted in the same transaction. A visible row was due before
-- now, so the new due time, which is later than now, is another token. Assignments are carried out
-- from left to right: whose row it was is asked before it is overwritten. Index: primary key.
update sendoff.outbox_event e force index (primary)
   set e.attempts = e.attempts + coalesce(e.locked_by <> :owner, 0),
       e.losses = least(e.losses, 65534) + coalesce(e.locked_by <> :owner, 0),
       e.due_at = :until,
       e.locked_by = :owner
 where e.event_id in (:ids);
commit
