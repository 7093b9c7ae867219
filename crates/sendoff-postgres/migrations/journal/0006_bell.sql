-- journal migration 6: a doorbell, so that tails and publishers hear of what other processes append.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- Until when tails sleep and want to be rung for, in seconds since 1970; 1 while nobody does. A sequence,
-- because every append looks at it: its value is read by a function, at a fraction of what a row would cost.
create sequence sendoff.journal_bell minvalue 1;
select setval('sendoff.journal_bell', 1);
-- Whoever may append looks at it.
grant select on sequence sendoff.journal_bell to public;

-- Rings, if a tail sleeps. PostgreSQL prepares no transaction that rings: so one of which nobody knows
-- whether it is to be prepared (not `ours`) rings where `sendoff_journal.ring` is on, or where it is not set
-- and the server prepares none (max_prepared_transactions = 0, its default).
-- One expression, which the server puts in place of the call. While nobody sleeps it does not ask for the
-- time.
create function sendoff.journal_ring(ours boolean) returns text
language sql volatile as $body$
    select case when pg_sequence_last_value('sendoff.journal_bell') > 1
                 and pg_sequence_last_value('sendoff.journal_bell') > date_part('epoch', clock_timestamp())
                 and (ours or case coalesce(current_setting('sendoff_journal.ring', true), '')
                                   when 'on' then true
                                   when 'off' then false
                                   else current_setting('max_prepared_transactions') = '0' end)
                then pg_notify('sendoff_journal_channel', '')::text end
$body$;

-- include journal_append
