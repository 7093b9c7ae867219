-- held_by: what an owner holds since a claim, and by which tokens.
-- Guarantee: sees committed rows only, changes nothing, reads no payload. Leaves out what was born held
-- for $3, and is its writer's. Index: outbox_event_due, from now on as far as a hold reaches.
select event_id, due_at
  from sendoff.outbox_event
 where status in (0, 2)
   and due_at > now() and due_at <= now() + $2::interval
   and locked_by = $1::text
   and due_at > created_at + $3::interval
 limit $4::bigint
