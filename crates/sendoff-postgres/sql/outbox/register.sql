-- register: says that the kinds $1, $2 (aggregate type, event type) are handled, and answers what somebody
-- said so of within $3, no more than $4.
-- Guarantee: who says the same at once writes it once; kinds are written in one order, so that two nodes never
-- wait for each other in a circle. What it says itself is not in its answer. Index: primary key; reads all
-- rows, of which there are as many as handlers.
with said as (
    insert into sendoff.outbox_handled as h (aggregate_type, event_type, seen_at)
    select distinct i.aggregate_type, i.event_type, now()
      from unnest($1::text[], $2::text[]) as i(aggregate_type, event_type)
     order by 1, 2
    on conflict (aggregate_type, event_type)
    do update set seen_at = excluded.seen_at
     where h.seen_at <> excluded.seen_at
)
select aggregate_type, event_type
  from sendoff.outbox_handled
 where seen_at > now() - $3::interval
 order by seen_at desc
 limit $4::bigint
