-- first_visible: which row a claim or a lock with these bounds would take first.
-- Guarantee: changes nothing, reads no text. $5 says which rows: 0 any, 1 those that `claim` takes, 2
-- suspects. Index: outbox_event_due.
select event_id, due_at
  from sendoff.outbox_event
 where status in (0, 2)
   and due_at <= now() and due_at >= coalesce($4::timestamptz, '-infinity')
   and (created_at <= now() - $2::interval or created_at > now())
   and created_at >= coalesce(now() - $3::interval, '-infinity')
   and case $5::smallint
           when 1 then losses + case when locked_by <> $1::text then 1 else 0 end < 2
           when 2 then losses + case when locked_by <> $1::text then 1 else 0 end >= 2
           else true end
   and event_id <> all ($6::uuid[])
 order by due_at, seq
 limit 1
   for no key update skip locked
