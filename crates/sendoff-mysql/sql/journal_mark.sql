-- journal_mark: the highest position that can be seen, in a transaction that holds a decision's locks.
-- Guarantee: facts that the locks exclude, up to it, are all visible, and later ones take a higher
-- number. Index: primary key.
select cast(coalesce(max(position), 0) as signed) from sendoff.journal_event
