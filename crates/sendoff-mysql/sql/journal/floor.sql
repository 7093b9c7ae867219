-- floor: from where a tail that begins now has to look. Index: primary key.
select cast(position as signed) from sendoff.journal_floor where one = 1
