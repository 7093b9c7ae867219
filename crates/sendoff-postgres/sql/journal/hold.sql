-- hold: takes a decision's locks, in the order given.
-- Guarantee: the locks are there until the transaction ends, and are waited for no longer than `$3`
-- milliseconds, as whatever else the transaction waits for; the server ends the transaction if it is
-- silent for longer than `$4` milliseconds. Both are set in the transaction and not in the session, so
-- that it is so behind a pooler as well, and, as columns are computed from left to right, before the
-- first lock is waited for. Once they are there, every fact that they exclude is visible to the next
-- statement.
-- One statement costs the server less than a command for a setting, and functions within functions.
-- Index: none.
select pg_postmaster_start_time(),
       set_config('lock_timeout', $3::integer::text, true),
       set_config('idle_in_transaction_session_timeout', $4::integer::text, true),
       case when k.alone
            then pg_advisory_xact_lock('sendoff.journal_event'::regclass::oid::integer, k.key)
            else pg_advisory_xact_lock_shared('sendoff.journal_event'::regclass::oid::integer, k.key)
       end
  from unnest($1::integer[], $2::boolean[]) as k(key, alone)
