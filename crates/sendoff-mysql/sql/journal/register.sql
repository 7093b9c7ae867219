-- register: makes cursors that are not there yet; those that somebody else has made since stay as
-- they are. Those that are there already are not for it: where somebody has locked them it would wait.
-- Index: primary key.
insert ignore into sendoff.journal_cursor (topic, publisher, last_position) values :rows
