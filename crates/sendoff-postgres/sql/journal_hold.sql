-- journal_hold: takes a decision's locks, in the order given, and answers as journal_decide does: with a
-- position up to which the decision misses nothing.
-- Guarantee: the locks are there until the transaction ends, and are waited for no longer than `$3`
-- milliseconds, as whatever else the transaction waits for; the server ends the transaction if it is
-- silent for longer than `$4` milliseconds. Both are set in the transaction and not in the session, so
-- that it is so behind a pooler as well. The position is asked for of what the locks were counted by,
-- and so behind them; not by pg_sequence_last_value, which locks the sequence as an append does.
-- One statement costs the server less than a command for a setting, and functions within functions.
-- Index: none.
select (select case when p.is_called then p.last_value else 0 end
          from sendoff.journal_position p
         where held.count >= 0)
  from (select count(case when k.alone
                          then pg_advisory_xact_lock('sendoff.journal_event'::regclass::oid::integer,
                                                     k.key)
                          else pg_advisory_xact_lock_shared(
                               'sendoff.journal_event'::regclass::oid::integer, k.key) end)
               filter (where bounds.are_set is not null) as count
          from (select set_config('lock_timeout', $3::integer::text, true)
                    || set_config('idle_in_transaction_session_timeout', $4::integer::text, true)
                       as are_set
                offset 0) as bounds
         cross join unnest($1::integer[], $2::boolean[]) as k(key, alone)) as held
