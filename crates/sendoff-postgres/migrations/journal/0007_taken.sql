-- journal migration 7: a decision's position is one that somebody took.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- As before, but for how the position is read: as a table, a sequence shows up to 32 too many while nextval
-- writes to the log, and a fact that came later, at one of those, would not have stood in a decision's way.
-- The function reads under the lock of nextval, so that its caller is a holder until this transaction ends, which is
-- when the statement does.
create or replace function sendoff.journal_decide(keys integer[], alone boolean[], patience integer)
returns bigint
language plpgsql volatile
set lock_timeout = 0
as $body$
begin
    perform pg_catalog.set_config('lock_timeout', patience::text, true);
    perform sendoff.journal_lock(keys, alone);
    return coalesce(pg_catalog.pg_sequence_last_value('sendoff.journal_position'), 0);
end
$body$;
