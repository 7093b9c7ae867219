-- claim: hold the visible rows, oldest due first.
-- Guarantee: two claims never get the same row. Index: outbox_event_due; then primary key, by an
-- array: a join would be planned for however many rows the statistics believe to be visible.
with visible as materialized (
    select event_id
      from outbox_event
     where status in (0, 2) and due_at <= now()
     order by due_at, seq
     limit $2::bigint
       for update skip locked
)
update outbox_event e
   set due_at = now() + interval '30 seconds', locked_by = $1::text
 where e.event_id = any (array(select event_id from visible))
returning e.event_id, e.due_at, e.payload, e.event_type, e.aggregate_type, e.aggregate_id,
          e.tenant_id, e.ordering_key, e.content_type, e.occurred_at, e.headers, e.attempts,
          e.created_at, e.seq
