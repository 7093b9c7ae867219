-- Forgetting what is kept beside the events: what is from before a moment ($3), or from longer ago than an age ($1)
-- where it is null. Answers how many.
-- Guarantee of both: at most as many as the limit ($2); whoever else forgets takes other rows, and nobody waits.

-- forget_seen: what consumers saw, the oldest first. Index: inbox_event_seen; then primary key.
--
-- forget_audit: what operators did, in the order of its numbers, which rise with the time: looks at no more entries
-- than the limit, old or not. One that a clock wrote that was ahead is passed by, and holds back nothing.
-- Index: primary key.
-- text forget_seen, forget_audit
with old as materialized (
    select consumer, event_id from sendoff.inbox_event                       -- [forget_seen]
     where seen_at < {cutoff}                                                -- [forget_seen]
     order by seen_at                                                        -- [forget_seen]
    select seq, at from sendoff.outbox_audit                                 -- [forget_audit]
     where at < greatest({cutoff}, now())                                    -- [forget_audit]
     order by seq                                                            -- [forget_audit]
     limit $2::bigint
       for update skip locked
), gone as (
    delete from sendoff.inbox_event kept                                     -- [forget_seen]
    delete from sendoff.outbox_audit kept                                    -- [forget_audit]
     using old
     where kept.consumer = old.consumer and kept.event_id = old.event_id     -- [forget_seen]
     where kept.seq = old.seq and old.at < {cutoff}                          -- [forget_audit]
    returning 1
)
select count(*) from gone

-- part cutoff
coalesce($3, now() - $1::interval)
