-- journal_append_tagged: as journal_append_held, for one fact with one tag, for which no more than one
-- key is missing.
-- Guarantee: as there, at three quarters of the cost: there is no array to take apart.
-- Index: unique (event_id).
with new as (
    insert into sendoff.journal_event
           (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers, payload,
            correlation_id, causation_id)
    select $2::uuid, $3::text, array[$4::text], $5::text, $6::timestamptz, clock_timestamp(), $7::jsonb,
           $8::bytea, $9::uuid, $10::uuid
     where $1::integer is null
        or pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, $1::integer)
           is not null
    returning position, recorded_at
), tagged as (
    insert into sendoff.journal_tag (tag, position)
    select $4::text, new.position from new
)
select 0 as outcome, new.position as place, new.recorded_at as at
       , case when current_setting('synchronous_commit') = 'off'                                  -- [durable]
               and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'    -- [durable]
              then set_config('synchronous_commit', 'local', true) end                            -- [durable]
  from new
