-- What an operator does to one dead letter ?1, which died at ?2 if that is said.
-- Guarantee of all: only a dead row is touched, and only the death that was named; they run in one immediate
-- transaction, the audit first. Index: unique (event_id).

-- letter_audit: remembers it as it is, with what is done at ?3 (?4), by whom (?5) and why (?6).
-- text letter_audit
insert into outbox_audit (at, action, actor, reason, event_id, event_type, attempts, last_error)
select ?3, ?4, ?5, ?6, event_id, event_type, attempts, last_error
  from outbox_event
 where {dead}

-- letter_requeue: it is new and due (?3), or in line where it has a key, held by nobody, and waits for nothing;
-- its last error stays.
-- text letter_requeue
update outbox_event
   set status = 0, attempts = 0, losses = 0, due_at = iif(ordering_key is null, ?3, 253339228800000000),
       done_at = null, locked_by = null, unavailable_since = null, unroutable_since = null
 where {dead}
returning ordering_key

-- letter_discard: it is gone.
-- text letter_discard
delete from outbox_event
 where {dead}
returning ordering_key

-- letter_standing: where it stands, if it was none of these.
-- text letter_standing
select status from outbox_event where event_id = ?1

-- part dead
event_id = ?1 and status = 3 and (?2 is null or done_at = ?2)
