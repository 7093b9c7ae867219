-- append_held: appends facts in a transaction that has a decision's locks, and in which nothing
-- has to be checked any more.
-- Guarantee: having shared every key that the decision does not hold, they take their positions, in
-- order. Answers as journal_append does. If an id is there already: by an error (unique_violation), or
-- in partitions by nothing if all of them are, and otherwise by an error (division_by_zero), for the
-- COMMIT that is sent after it must not make half of them durable.
-- It commits durably, and rings for tails that sleep, as with the function.
-- Index: unique (event_id).
with new as (
    insert into sendoff.journal_event
           (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers, payload,
            correlation_id, causation_id)
    select i.id, i.type, i.tags::text[], i.content_type, i.occurred_at, clock_timestamp(), i.headers,
           i.payload, i.correlation, i.causation
      from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::jsonb[],
                  $8::bytea[], $9::uuid[], $10::uuid[])
           as i(id, type, tags, content_type, occurred_at, headers, payload, correlation, causation)
     where (select count(pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer,
                                                      k.key))
              from unnest($1::integer[]) as k(key)) >= 0
    returning position, recorded_at, tags
), tagged as (
    insert into sendoff.journal_tag (tag, position)
    select t.tag, new.position from new cross join unnest(new.tags) as t(tag)
)
select 0 as outcome, new.position as place, new.recorded_at as at,
       1 / case when (select count(*) from new) = cardinality($2::uuid[]) then 1 else 0 end as whole
       , sendoff.journal_ring(true)                                                              -- [rings]
       , case when current_setting('synchronous_commit') = 'off'                                  -- [durable]
               and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'    -- [durable]
              then set_config('synchronous_commit', 'local', true) end                            -- [durable]
  from new
 order by new.position
