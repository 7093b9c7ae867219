-- forget_seen: forget what consumers saw, the oldest first: before a moment ($3), or longer ago than an age ($1)
-- where it is null. Answers how many.
-- Guarantee: at most as many as the limit ($2); whoever else forgets takes other rows, and nobody waits.
-- Index: inbox_event_seen; then primary key.
with old as materialized (
    select consumer, event_id from sendoff.inbox_event
     where seen_at < coalesce($3, now() - $1::interval)
     order by seen_at
     limit $2::bigint
       for update skip locked
), gone as (
    delete from sendoff.inbox_event i
     using old
     where i.consumer = old.consumer and i.event_id = old.event_id
    returning 1
)
select count(*) from gone
