-- range_tail: how many rows of the tail lie in a range.
-- Index: primary key of journal_event_pmax, (position) of journal_tag_pmax.
select count(*) from sendoff.journal_table_pmax where position >= range_from and position < range_to
