-- run: the first ?2 pending events of a key (?1), in order, in line or not; none where one is dead that parks it.
-- Guarantee: reads only, and takes no lock that a writer wants.
-- Index: outbox_event_key, and a plan without it fails; primary key of the keys.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses,
       unavailable_since, unroutable_since, delayed_until
  from outbox_event indexed by outbox_event_key
 where ordering_key = ?1 and status in (0, 2)
   and not exists (select 1 from outbox_key where ordering_key = ?1 and parked_by is not null)
 order by seq
 limit ?2
