-- claim: lock the visible rows that may run in company, oldest due first.
-- Guarantee: two claims never get the same row, and neither waits for the other; nothing is written
-- yet, `hold` does that in the same transaction. Leaves suspects out. Index: outbox_event_due.
start transaction;
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, e.due_at, e.created_at,
       e.seq, coalesce(e.locked_by <> :owner, 0) as lost, utc_timestamp(6) as claimed_at
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at <= utc_timestamp(6)
   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
        or e.created_at > utc_timestamp(6))
   and e.created_at >= :since
   and e.losses + coalesce(e.locked_by <> :owner, 0) < 2
 order by e.due_at, e.seq
 limit :limit
   for update skip locked
