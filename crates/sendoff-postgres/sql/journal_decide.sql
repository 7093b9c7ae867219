-- journal_decide: a position up to which a decision misses nothing; see the function.
-- Guarantee: the locks are gone when it answers, since the statement is a transaction of its own.
-- Index: none.
select sendoff.journal_decide($1::integer[], $2::boolean[], $3::integer)
