-- head: the last position that was taken, by whatever is or will be there.
-- Guarantee: never one that nobody took yet. Read as a table, a sequence shows up to 32 too many while nextval writes to
-- the log: it puts the number there that the log is to have, and the right one in its place when that is done. The
-- function reads under the lock of nextval, which is why it is one of `holders` too until its transaction
-- ends: so this is a transaction of its own that answers one number, and waits for nobody. Index: none.
select coalesce(pg_sequence_last_value('sendoff.journal_position'), 0)
