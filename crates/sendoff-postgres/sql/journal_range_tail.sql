-- journal_range_tail: how many rows of the tail lie in a range, and the last position that was taken.
-- Index: primary key of journal_event_pmax, (position) of journal_tag_pmax.
select (select count(*) from sendoff.journal_table_pmax
         where position >= range_from and position < range_to),
       (select case when is_called then last_value else 0 end from sendoff.journal_position)
