-- held_by: what an owner holds since a claim, and by which tokens.
-- Guarantee: sees committed rows only, locks nothing, reads no payload. Leaves out what was born held
-- for :born, and is its writer's. Index: outbox_event_due.
select e.event_id, e.due_at
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at > utc_timestamp(6) and e.due_at <= utc_timestamp(6) + interval :hold microsecond
   and e.status in (0, 2) and e.locked_by = :owner
   and e.due_at > e.created_at + interval :born microsecond
 limit :limit
