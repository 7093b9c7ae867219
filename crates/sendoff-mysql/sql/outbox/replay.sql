-- Delivered events, in the order in which they were delivered, between two times and after a place.
-- Guarantee: plain reads, which wait for nobody; walk delivered rows alone, and no more of them than a step has,
-- however few meet a filter. What a filter does not say is NULL. Index: outbox_event_aside, in its order.

-- replay_step: where the next :rows rows end; none where there are no more.
-- text replay_step
select e.aside_at, e.seq
  from sendoff.outbox_event e force index (outbox_event_aside)
 where {walked}
 order by e.aside_at, e.seq
 limit 1 offset :rows

-- replay: those up to a place that meet a filter, :rows at most, with no more than :bytes together, but always one;
-- and how many rows met it. Index: then primary key, forced by a join, for the rows that fit.
-- text replay
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.created_at, e.done_at, e.seq, c.found
  from (select m.*, sum(m.bytes) over (order by m.aside_at, m.seq rows unbounded preceding) as bytes_so_far,
               count(*) over () as found
          from (select e.event_id, e.seq, e.aside_at,
                       length(e.payload) + coalesce(length(e.headers), 0) as bytes
                  from sendoff.outbox_event e force index (outbox_event_aside)
                 where {walked} and {meant}
                 order by e.aside_at, e.seq
                 limit :rows) m) c
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = c.event_id and e.seq = c.seq
 where (c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes) and e.status = 1
 order by c.aside_at, c.seq

-- replay_count: how many of them there are.
-- text replay_count
select count(*)
  from sendoff.outbox_event e force index (outbox_event_aside)
 where {walked} and {meant}

-- part walked
e.aside = 1 and e.aside_at between :first and :last
and (e.aside_at > :after_at or e.aside_at = :after_at and e.seq > :after_seq)

-- part meant
(e.aside_at < :end_at or e.aside_at = :end_at and e.seq <= :end_seq)
and (:event_type is null or e.event_type = :event_type)
and (:aggregate_type is null or e.aggregate_type = :aggregate_type)
and (:aggregate_id is null or e.aggregate_id = :aggregate_id)
and (:tenant_id is null or e.tenant_id = :tenant_id)
and (:ordering_key is null or e.ordering_key = :ordering_key)
