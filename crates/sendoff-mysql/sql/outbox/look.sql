-- look: the rows that became visible last, and the last of those in line (0, their number), the keys that became
-- due last (0, when, as a number below zero), and what is paused (1, scope, name).
-- Guarantee: reads only, locks nothing, and no more than :limit of each and :pauses pauses. While nothing is there it
-- is one step in each index. Index: outbox_event_due, from its end, covering; outbox_key_flows; primary key.
-- text look
select 0 as what, s.seq as number, '' as name
  from (select e.seq
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at <= utc_timestamp(6)
         order by e.due_at desc, e.seq desc
         limit :limit) s
union all
select 0, s.seq, ''
  from (select e.seq
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at = date'9998-01-01'
         order by e.seq desc
         limit :limit) s
union all
select 0, -timestampdiff(microsecond, date'1970-01-01', s.flows_at), ''
  from (select k.flows_at
          from sendoff.outbox_key k force index (outbox_key_flows)
         where k.flows_at <= utc_timestamp(6)
         order by k.flows_at desc
         limit :limit) s
union all
select 1, s.scope, s.name
  from (select p.scope, p.name from sendoff.outbox_pause p limit :pauses) s

-- some_visible: whether a row may be visible that a claim could take.
-- Guarantee: reads only, locks nothing. Index: outbox_event_due.
-- text some_visible
select 1
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at >= :from and e.due_at <= utc_timestamp(6)
 limit 1

-- some_suspects: whether a suspect may be.
-- Guarantee: as `some_visible`. Index: outbox_event_aside.
-- text some_suspects
select 1
  from sendoff.outbox_event e force index (outbox_event_aside)
 where e.aside = 0 and e.aside_at >= :from and e.aside_at <= utc_timestamp(6)
 limit 1
