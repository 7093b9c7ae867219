-- lag: when the oldest of the first ?2 pending rows was created, without those that were delayed; when the
-- first delayed one that is due by ?1 was; how many the first ones are; and when the first of them is due.
-- A row in line is as old as it is, and due since then where its key has no entry; else when its key is.
-- Guarantee: bounded by ?2 rows, in the order of claims, ?2 rows in line, in theirs, and ?2 keys; reads no payload.
-- Index: outbox_event_due, and outbox_event_delayed for what stands behind the payload; outbox_key_due and the
-- primary key of outbox_key; a plan without them fails.
with first as (select seq, created_at, due_at, ordering_key from outbox_event indexed by outbox_event_due
                where status in (0, 2)
                order by due_at, seq
                limit ?2),
     in_line as (select seq, created_at, ordering_key from outbox_event indexed by outbox_event_due
                  where status in (0, 2) and due_at = 253339228800000000
                  order by seq
                  limit ?2),
     shelved as (select seq, created_at from outbox_event indexed by outbox_event_due
                  where status in (0, 2) and due_at = 253370764800000000
                  order by seq
                  limit 1),
     delayed as (select seq from outbox_event indexed by outbox_event_delayed
                  where delayed_until is not null and status in (0, 2))
select (select min(created_at)
          from (select seq, created_at from first
                union all select seq, created_at from in_line
                union all select seq, created_at from shelved)
         where seq not in (select seq from delayed)),
       (select min(delayed_until) from outbox_event indexed by outbox_event_delayed
         where delayed_until <= ?1 and status in (0, 2)),
       (select count(*) from first),
       (select min(due_at)
          from (select due_at from first where due_at < 253339228800000000
                union all
                select created_at from in_line e
                 where not exists (select 1 from outbox_key k where k.ordering_key = e.ordering_key)
                   and e.seq not in (select seq from delayed)
                union all
                select * from (select due_at from outbox_key indexed by outbox_key_due
                                where parked_by is null
                                order by due_at
                                limit 1)))
