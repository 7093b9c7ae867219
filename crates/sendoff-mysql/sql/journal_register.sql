-- journal_register: makes cursors that are not there yet; those that are stay as they are.
-- Index: primary key.
insert ignore into sendoff.journal_cursor (topic, publisher, last_position) values :rows
