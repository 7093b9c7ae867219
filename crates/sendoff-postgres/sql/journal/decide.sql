-- decide: a position up to which a decision misses nothing; see the function.
-- Guarantee: the locks are gone when it answers, since the statement is a transaction of its own. When the
-- server was started tells its runs apart: a standby that was promoted, or a restored copy, may lack what is
-- read in this one.
-- Index: none.
select sendoff.journal_decide($1::integer[], $2::boolean[], $3::integer), pg_postmaster_start_time()
