-- journal_append_held: appends one fact in a transaction that journal_hold began, and in which nothing
-- has to be checked any more.
-- Guarantee: having shared every key that the decision does not hold, it takes a position. Answers as
-- journal_append does; if the id is there already, by an error (unique_violation) or by nothing.
-- It commits durably, as with the function.
-- Index: unique (event_id).
with new as (
    insert into sendoff.journal_event
           (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers, payload,
            correlation_id, causation_id)
    select $2::uuid, $3::text, $4::text[], $5::text, $6::timestamptz, clock_timestamp(), $7::jsonb,
           $8::bytea, $9::uuid, $10::uuid
      from unnest($1::integer[]) as k(key)
    having count(pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, k.key))
           >= 0
    returning position, recorded_at
), tagged as (
    insert into sendoff.journal_tag (tag, position)
    select t.tag, new.position from new cross join unnest($4::text[]) as t(tag)
)
select 0 as outcome, new.position as place, new.recorded_at as at
       , case when current_setting('synchronous_commit') = 'off'                                  -- [durable]
               and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'    -- [durable]
              then set_config('synchronous_commit', 'local', true) end                            -- [durable]
  from new
