-- One fact with one tag, for which no more than one key is missing.
-- Index: unique (event_id).

-- append_tagged: as journal_append_held.
-- Guarantee: as there, at three quarters of the cost: there is no array to take apart. Rings, as there.
--
-- append_session: the same as a transaction of its own, in a session that has a decision's two
-- locks: `$11` shared, and `$12` alone.
-- Guarantee: before the session lets go of the locks the transaction has them, for which it need not
-- wait, and they are there until it is over. Where the session does not have them any more, nothing is
-- appended and no row answers. A row says that the session is as it was: without locks, and with `$13`
-- as its limit of silence.
--
-- append_at_once: the same under a condition, right after hold_append, in one round trip with it; the session has the
-- lock of `$1`, too.
-- Guarantee: appends only if the server was started at `$14`, and there is no fact with the tag `$15`, of any type
-- or of those in `$17`, after position `$16`; where it appends nothing, no row answers. It is a statement
-- of its own, so that it sees whatever was committed when the session got its locks. If the session did not
-- get them, which a limit for locks tells that only hold_append sets, it waits for nothing.
-- Index: primary key of journal_tag, too.
-- text append_tagged, append_session, append_at_once
with new as (
    insert into sendoff.journal_event
           (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers, payload,
            correlation_id, causation_id)
    select $2::uuid, $3::text, array[$4::text], $5::text, $6::timestamptz, clock_timestamp(), $7::jsonb,
           $8::bytea, $9::uuid, $10::uuid
     where {missing}              -- [append_tagged]
     where {handed_over}          -- [append_session]
     where {at_once}              -- [append_at_once]
    returning position, recorded_at
), tagged as (
    insert into sendoff.journal_tag (tag, position)
    select $4::text, new.position from new
)
select 0 as outcome, new.position as place, new.recorded_at as at
       , set_config('lock_timeout', '0', false)                      -- [append_session, append_at_once]
       , set_config('idle_session_timeout', $13::text, false)        -- [append_session, append_at_once]
       , sendoff.journal_ring(true)                                                              -- [rings]
       , case when current_setting('synchronous_commit') = 'off'                                  -- [durable]
               and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'    -- [durable]
              then set_config('synchronous_commit', 'local', true) end                            -- [durable]
  from new

-- part missing
($1::integer is null
 or pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, $1::integer)
    is not null)

-- Of a CASE nothing is carried out in another order.
-- part handed_over
case when {missing}
      and pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer,
                                       $11::integer) is not null
      and pg_advisory_xact_lock('sendoff.journal_event'::regclass::oid::integer,
                                $12::integer) is not null
     then pg_advisory_unlock_shared('sendoff.journal_event'::regclass::oid::integer,
                                    $11::integer)
      and pg_advisory_unlock('sendoff.journal_event'::regclass::oid::integer, $12::integer)
end

-- Of a CASE nothing is carried out in another order: locks are let go at once where only some were to be had, with
-- no limit of silence any more.
-- part at_once
case when current_setting('lock_timeout') = '0'
     then (select false from pg_advisory_unlock_all())
     when pg_postmaster_start_time() <> $14::timestamptz
       or exists (select
                    from sendoff.journal_tag t
                    join sendoff.journal_event e on e.position = t.position
                   where t.tag = $15::text and t.position > $16::bigint
                     and coalesce(e.event_type = any ($17::text[]), true))
     then false
     else {handed_over}
      and pg_advisory_unlock_shared('sendoff.journal_event'::regclass::oid::integer, $1::integer)
end
