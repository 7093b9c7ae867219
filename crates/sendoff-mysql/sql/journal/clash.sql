-- clash: notes the first fact that a condition excludes.
-- Guarantee: a statement of its own after the locks, and a locking read: it sees what is committed,
-- whatever the transaction saw before. It meets no row of an open append, because those are excluded
-- by the locks. Index: those of the searches.
set @sendoff_clash = :first
