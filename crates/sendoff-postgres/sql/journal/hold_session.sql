-- hold_session: as journal_hold_two, but it is the session that has the locks, and no transaction,
-- which would have to be begun and committed by statements of their own.
-- Guarantee: as there, after limit_session. The locks are there until journal_append_session or
-- journal_release_session, or until the session ends. If this statement fails, what it set is undone, and
-- locks that it had by then stay; that the session may not be silent stays, too.
-- Not behind a transaction pooler, where a session is somebody else's with the next statement.
-- Index: none.
--
-- hold_append: the same for three, which is what an append of one fact with one tag takes under a condition about that
-- tag: all of them in their order, so that it deadlocks with nobody who keeps to it.
-- text hold_session, hold_append
select pg_postmaster_start_time(),
       set_config('lock_timeout', $5::integer::text, false),
       case when $2::boolean
            then pg_advisory_lock('sendoff.journal_event'::regclass::oid::integer, $1::integer)
            else pg_advisory_lock_shared('sendoff.journal_event'::regclass::oid::integer, $1::integer)
       end,
       case when $4::boolean
            then pg_advisory_lock('sendoff.journal_event'::regclass::oid::integer, $3::integer)
            else pg_advisory_lock_shared('sendoff.journal_event'::regclass::oid::integer, $3::integer)
       end
     , case when $7::boolean                                                                                -- [hold_append]
            then pg_advisory_lock('sendoff.journal_event'::regclass::oid::integer, $6::integer)             -- [hold_append]
            else pg_advisory_lock_shared('sendoff.journal_event'::regclass::oid::integer, $6::integer)      -- [hold_append]
       end                                                                                                  -- [hold_append]
