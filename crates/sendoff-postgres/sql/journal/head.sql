-- head: the last position that was taken, by whatever is or will be there.
-- Guarantee: no lock of the kind an append takes. Index: none.
select case when is_called then last_value else 0 end from sendoff.journal_position
