-- hold_two: as journal_hold, for two locks, which is what a decision about one tag takes.
-- Guarantee: as there, without an array that has to be taken apart.
-- Index: none.
select pg_postmaster_start_time(),
       set_config('lock_timeout', $5::integer::text, true),
       set_config('idle_in_transaction_session_timeout', $6::integer::text, true),
       case when $2::boolean
            then pg_advisory_xact_lock('sendoff.journal_event'::regclass::oid::integer, $1::integer)
            else pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, $1::integer)
       end,
       case when $4::boolean
            then pg_advisory_xact_lock('sendoff.journal_event'::regclass::oid::integer, $3::integer)
            else pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, $3::integer)
       end
