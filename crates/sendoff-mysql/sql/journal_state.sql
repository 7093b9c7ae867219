-- journal_state: how this server counts, whether it can be written to, and the highest position.
-- Index: primary key.
select cast(@@session.auto_increment_increment as signed), cast(@@global.read_only as char),
       cast((select coalesce(max(position), 0) from sendoff.journal_event) as signed)
