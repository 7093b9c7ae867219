-- lock_visible: the visible rows, locked until the end of the transaction, oldest due first.
-- Guarantee: two transactions never get the same row, and nothing is written; a holder who vanished
-- is told of. Index: outbox_event_due.
start transaction;
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, e.due_at, e.created_at,
       e.seq, e.locked_by is not null as lost, utc_timestamp(6) as claimed_at
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at <= utc_timestamp(6)
   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
        or e.created_at > utc_timestamp(6))
   and e.created_at >= :since
 order by e.due_at, e.seq
 limit :limit
   for update skip locked
