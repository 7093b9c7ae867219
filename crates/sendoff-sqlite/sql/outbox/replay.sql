-- Delivered events, in the order of their numbers, after one of them (?1).
-- Guarantee: reads only, and no more rows than a step has, however few meet a filter. What a filter does not say
-- is NULL. There is no index of delivered rows, for which every delivery would pay: the table itself is walked, in
-- its order. Index: primary key.

-- replay_step: where the next ?2 rows end; none where there are no more.
-- text replay_step
select seq from outbox_event where seq > ?1 order by seq limit 1 offset ?2

-- replay: those up to a number (?2) that were delivered between two times (?3 to ?4) and meet a filter, ?10 at most.
-- text replay
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       created_at, done_at, seq
  from outbox_event
 where {meant}
 order by seq
 limit ?10

-- replay_count: how many of them there are.
-- text replay_count
select count(*) from outbox_event where {meant}

-- part meant
seq > ?1 and seq <= ?2 and status = 1 and done_at between ?3 and ?4
and (?5 is null or event_type = ?5)
and (?6 is null or aggregate_type = ?6)
and (?7 is null or aggregate_id = ?7)
and (?8 is null or tenant_id = ?8)
and (?9 is null or ordering_key = ?9)
