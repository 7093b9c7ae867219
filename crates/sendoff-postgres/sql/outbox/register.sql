-- register: says that the kinds $1, $2 (aggregate type, event type) are handled, and answers what somebody
-- said so of within $3, no more than $4.
-- Guarantee: a row that somebody has locked is left as it is, and keeps no other from being written, nor
-- anything from being read. What it says itself is not in its answer. Index: primary key; reads all rows, of
-- which there are as many as handlers.
with mine as (
    select distinct aggregate_type, event_type
      from unnest($1::text[], $2::text[]) as i(aggregate_type, event_type)
), free as materialized (
    select h.aggregate_type, h.event_type
      from sendoff.outbox_handled h join mine m using (aggregate_type, event_type)
     order by 1, 2
       for update of h skip locked
), again as (
    update sendoff.outbox_handled h
       set seen_at = now()
      from free f
     where (h.aggregate_type, h.event_type) = (f.aggregate_type, f.event_type)
), said as (
    insert into sendoff.outbox_handled (aggregate_type, event_type, seen_at)
    select m.aggregate_type, m.event_type, now()
      from mine m
     where not exists (select from sendoff.outbox_handled h
                        where (h.aggregate_type, h.event_type) = (m.aggregate_type, m.event_type))
     order by 1, 2
    on conflict do nothing
)
select aggregate_type, event_type
  from sendoff.outbox_handled
 where seen_at > now() - $3::interval
 order by seen_at desc
 limit $4::bigint
