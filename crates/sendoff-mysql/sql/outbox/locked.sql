-- locked: the rows that `lock_visible` noted, locked until the end of the transaction; begins it.
-- Guarantee: two transactions never get the same row; one that somebody else took meanwhile, or has
-- locked, is left out. Locks nothing but these rows, by their key: neither an entry of another index nor
-- any row beside them. Nothing is written; a holder who vanished is told of. The table of counters, which
-- the settlement will write, is asked for first, so that nothing is delivered that could not be settled
-- because somebody keeps writers out of it; reading rows for update asks for theirs. Answers which
-- were noted, then the rows. Index: primary key, forced by a join.
start transaction;
select 1 from sendoff.outbox_tally_delta where false for update;
select unhex(s.id) from json_table(@sendoff_rows, '$[*]' columns (id char(32) path '$[0]')) s;
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, e.due_at, e.created_at, e.due_at, e.locked_by is not null, utc_timestamp(6), e.seq,
       e.unavailable_since, e.unroutable_since
  from json_table(@sendoff_rows, '$[*]' columns (
           id  char(32) path '$[0]',
           seq bigint   path '$[1]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where e.status in (0, 2) and e.due_at <= utc_timestamp(6)
   for update /*!80001 of e */ skip locked
