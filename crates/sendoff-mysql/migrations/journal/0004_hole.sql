-- journal migration 4: runs of numbers that nobody brings any more.
-- Guarantee: every step may run again.

-- One row stands for a whole run, which would be a void for each number otherwise. Whoever appends looks
-- here behind its insert, so that what took such a number before takes another. By their ends: all
-- that is appended is above them, and so is the search for it.
create table if not exists sendoff.journal_hole (
    last_position  bigint      not null primary key,
    first_position bigint      not null,
    -- UTC, whatever the zone of a session: a DATETIME has none.
    closed_at      datetime(6) not null,
    check (first_position <= last_position)
) engine = InnoDB;
