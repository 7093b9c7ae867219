-- append_one: appends one fact under no condition, in a transaction of its own.
-- Guarantee: having shared every key, it takes a position; the keys are let go after the commit. Answers
-- as journal_append does, or nothing if the id is there already, and then nothing was changed.
-- One statement costs the server much less than a function of several, and without a condition no
-- snapshot has to be younger than a lock.
-- It commits durably, and rings for tails that sleep, as with the function.
-- Index: unique (event_id).
with new as (
    insert into sendoff.journal_event
           (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers, payload,
            correlation_id, causation_id)
    select $3::uuid, $4::text, $5::text[], $6::text, $7::timestamptz, clock_timestamp(), $8::jsonb,
           $9::bytea, $10::uuid, $11::uuid
      from (select set_config('lock_timeout', $2::integer::text, true) as is_set offset 0) as patience
     cross join unnest($1::integer[]) as k(key)
    having count(pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, k.key))
           filter (where patience.is_set is not null) > 0
    on conflict do nothing
    returning position, recorded_at
), tagged as (
    insert into sendoff.journal_tag (tag, position)
    select t.tag, new.position from new cross join unnest($5::text[]) as t(tag)
)
select 0 as outcome, new.position as place, new.recorded_at as at
       , sendoff.journal_ring(true)                                                              -- [rings]
       , case when current_setting('synchronous_commit') = 'off'                                  -- [durable]
               and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'    -- [durable]
              then set_config('synchronous_commit', 'local', true) end                            -- [durable]
  from new
