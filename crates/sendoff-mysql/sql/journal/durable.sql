-- durable: as `durable`, for a journal alone. The floor is the row 1; any other counts such
-- commits, and says nothing.
-- Guarantee: waits for nobody who has not locked this very row. Index: primary key.
insert into sendoff.journal_floor (one, position) values (:slot, 1)
on duplicate key update position = position + 1
