-- lag: when the oldest of the first ?2 pending rows was created, without those that were delayed; when the
-- first delayed one that is due by ?1 was; how many the first ones are; and when the first of them is due.
-- Guarantee: bounded by ?2 rows, in the order of claims; reads no payload. Index: outbox_event_due, and
-- outbox_event_delayed for what stands behind the payload; a plan without them fails.
select min(case when seq not in (select seq from outbox_event indexed by outbox_event_delayed
                                  where delayed_until is not null and status in (0, 2))
                then created_at end),
       (select min(delayed_until) from outbox_event indexed by outbox_event_delayed
         where delayed_until <= ?1 and status in (0, 2)),
       count(*), min(due_at)
  from (select seq, created_at, due_at from outbox_event indexed by outbox_event_due
         where status in (0, 2)
         order by due_at, seq
         limit ?2)
