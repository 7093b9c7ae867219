-- first_visible: which row a claim or a lock with these bounds would take first.
-- Guarantee: changes nothing, reads no text. :which says which rows: 0 any, 1 those that `claim` takes, 2
-- suspects. Index: outbox_event_due.
select e.event_id, e.due_at
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at >= :from and e.due_at <= utc_timestamp(6)
   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
        or e.created_at > utc_timestamp(6))
   and e.created_at >= :since
   and e.event_id not in (:passed)
   and case :which
           when 1 then e.losses + coalesce(e.locked_by <> :owner, 0) < 2
           when 2 then e.losses + coalesce(e.locked_by <> :owner, 0) >= 2
           else true end
 order by e.due_at, e.seq
 limit 1
   for update skip locked
