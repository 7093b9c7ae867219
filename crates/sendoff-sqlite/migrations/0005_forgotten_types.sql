-- migration 5: types of which nothing ends any more are forgotten.
-- Guarantee: runs once, in the transaction that also writes outbox_schema.

-- When one last ended. NULL where an older version counted, beside this one: that one stays.
alter table outbox_tally add column ended_at integer;

-- Nobody knows of those that ended before; now is the best answer.
update outbox_tally set ended_at = cast(unixepoch('subsec') * 1000000 as integer);
