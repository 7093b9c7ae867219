-- register: says that the kinds :kinds (aggregate type, event type, now) are handled.
-- Guarantee: waits for another's row no longer than our sessions wait for any lock, and says nothing then.
-- Index: primary key.
-- text register
insert into sendoff.outbox_handled (aggregate_type, event_type, seen_at) values :kinds
on duplicate key update seen_at = values(seen_at)

-- registered: what somebody said so of within :lately microseconds, no more than :most.
-- Guarantee: reads what has committed, whoever has locked it. Index: reads all rows, of which there are as many
-- as handlers.
-- text registered
select aggregate_type, event_type
  from sendoff.outbox_handled
 where seen_at > utc_timestamp(6) - interval :lately microsecond
 order by seen_at desc
 limit :most
