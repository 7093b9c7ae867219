-- claim: the visible rows that may run in company, oldest due first.
-- Guarantee: part one of a claim; `hold` follows in the same immediate transaction, so no other
-- claim comes between. Leaves suspects out. Index: outbox_event_due, and a plan without it fails.
--
-- claim_suspects: the visible rows that were lost before and are lost again, oldest due first.
-- Guarantee: as `claim`, for exactly the rows that `claim` leaves out.
-- Index: outbox_event_suspect, and a plan without it fails.
--
-- claim_except, claim_suspects_except: the same without rows of the kinds ?7, pairs of aggregate type and
-- event type in JSON, and of the event types ?8.
--
-- claim_fair: the same as `claim` of one tenant, ?7, which is empty for rows without one.
-- Guarantee: as `claim`; however many rows others have. Index: outbox_event_tenant, and a plan without it fails.
--
-- claim_fair_except: the same without rows of the kinds ?8 and the event types ?9.
--
-- lock: the visible rows, oldest due first.
-- Guarantee: runs in an immediate transaction that stays open, so that nobody else writes anything;
-- nothing is written. Index: outbox_event_due, and a plan without it fails.
--
-- lock_except: the same without rows of the kinds ?6 and the event types ?7, as `claim_except`.
select seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       status, attempts, due_at, created_at, done_at, last_error, locked_by, losses,
       unavailable_since, unroutable_since, delayed_until
  from outbox_event indexed by outbox_event_due                          -- [not claim_suspects, claim_suspects_except, claim_fair, claim_fair_except]
  from outbox_event indexed by outbox_event_tenant                       -- [claim_fair, claim_fair_except]
  from outbox_event indexed by outbox_event_suspect                      -- [claim_suspects, claim_suspects_except]
 where status in (0, 2)
   and due_at >= ?3 and due_at <= ?1
   and (created_at <= ?2 or created_at > ?1)
   and created_at >= ?4
   and coalesce(tenant_id, '') = ?7                                      -- [claim_fair, claim_fair_except]
   and losses + (locked_by is not null and locked_by <> ?6) < 2          -- [claim, claim_except, claim_fair, claim_fair_except]
   and losses > 0                                                        -- [claim_suspects, claim_suspects_except]
   and losses + (locked_by is not null and locked_by <> ?6) >= 2         -- [claim_suspects, claim_suspects_except]
   and (aggregate_type, event_type) not in                               -- [claim_except, claim_suspects_except]
       (select value ->> 0, value ->> 1 from json_each(?7))              -- [claim_except, claim_suspects_except]
   and event_type not in (select value from json_each(?8))               -- [claim_except, claim_suspects_except]
   and (aggregate_type, event_type) not in                               -- [claim_fair_except]
       (select value ->> 0, value ->> 1 from json_each(?8))              -- [claim_fair_except]
   and event_type not in (select value from json_each(?9))               -- [claim_fair_except]
   and (aggregate_type, event_type) not in                               -- [lock_except]
       (select value ->> 0, value ->> 1 from json_each(?6))              -- [lock_except]
   and event_type not in (select value from json_each(?7))               -- [lock_except]
 order by due_at, seq
 limit ?5
