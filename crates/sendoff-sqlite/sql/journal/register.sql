-- register: makes a cursor that is not there yet; one that is stays as it is.
-- Index: primary key.
insert into journal_cursor (topic, publisher, last_position, updated_at) values (?1, ?2, ?3, ?4)
on conflict do nothing
