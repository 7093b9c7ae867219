-- void: makes voids of numbers that nobody brings any more.
-- Guarantee: where an open transaction has one of these numbers this waits for its end, and for nobody
-- else; what is there then stays as it is. When it answers, every one of them is a row. Whoever took a
-- number and had not yet inserted its row gets a duplicate, and takes another. Index: primary key.
insert ignore into sendoff.journal_event (position, recorded_at) values :rows
