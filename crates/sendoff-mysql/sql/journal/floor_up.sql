-- floor_up: every number up to here is a row, or was let go. Never goes back. Index: primary key.
update sendoff.journal_floor set position = :position where one = 1 and position < :position
