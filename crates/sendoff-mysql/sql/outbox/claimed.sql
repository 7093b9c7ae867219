-- claimed: what a claim got, once it is committed: nothing is locked while it is sent.
-- Guarantee: only rows that are held by this very claim. Index: primary key, forced by a join.
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, s.was_due, e.created_at, e.due_at, s.lost, cast(@sendoff_at as datetime(6)), e.seq,
       e.unavailable_since, e.unroutable_since
  from json_table(@sendoff_rows, '$[*]' columns (
           id      char(32) path '$[0]',
           seq     bigint   path '$[1]',
           was_due char(26) path '$[2]',
           lost    int      path '$[3]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where e.status in (0, 2) and e.due_at = cast(@sendoff_until as datetime(6)) and e.locked_by = :owner
