-- ready: does what delivering does, to no row. Rows of the outbox are inserted by others.
-- Guarantee: the server looks at every column and right before it finds that there is nothing to do: it
-- refuses what it would refuse later, and reads, locks and changes nothing. Index: none.
select event_id, seq, occurred_at, due_at, created_at, done_at, attempts, status, shard, losses, event_type,
       aggregate_type, aggregate_id, tenant_id, ordering_key, content_type, locked_by, last_error, headers,
       payload, aside, aside_at, live_key
  from sendoff.outbox_event where false for update;
update sendoff.outbox_event
   set due_at = due_at, created_at = created_at, done_at = done_at, status = status, losses = losses,
       attempts = attempts, last_error = last_error, locked_by = locked_by
 where false;
delete from sendoff.outbox_event where false;
insert into sendoff.outbox_tally (event_type, status, count, ended_at)
select event_type, status, count, ended_at from sendoff.outbox_tally t where false
on duplicate key update sendoff.outbox_tally.count = t.count, sendoff.outbox_tally.ended_at = t.ended_at;
delete from sendoff.outbox_tally where false;
insert into sendoff.outbox_tally_delta (part, event_type, status, count)
select part, event_type, status, count from sendoff.outbox_tally_delta where false;
select part from sendoff.outbox_tally_delta where false for update;
delete from sendoff.outbox_tally_delta where false;
select scope, name, since, actor, reason from sendoff.outbox_pause where false;
select ordering_key, flows_at, suspect_at from sendoff.outbox_key where false for update;
insert into sendoff.outbox_key (ordering_key, due_at, since, taken_at, locked_by, parked_by, run, careful, losses,
                                shelved)
select ordering_key, due_at, since, taken_at, locked_by, parked_by, run, careful, losses, shelved
  from sendoff.outbox_key where false;
update sendoff.outbox_key
   set due_at = due_at, since = since, taken_at = taken_at, locked_by = locked_by, parked_by = parked_by, run = run,
       careful = careful, losses = losses, shelved = shelved
 where false;
delete from sendoff.outbox_key where false;
insert into sendoff.outbox_handled (aggregate_type, event_type, seen_at)
select aggregate_type, event_type, seen_at from sendoff.outbox_handled h where false
on duplicate key update sendoff.outbox_handled.seen_at = h.seen_at
