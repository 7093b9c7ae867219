-- clash_in: as journal_clash, in a session of somebody else's, which remembers in which run of the
-- server it is: where the condition was read in another one, 0 is found, which no fact has. While the
-- server's clock is behind its start nobody knows.
-- Guarantee: as there. Index: those of the searches.
set @sendoff_run = coalesce(@sendoff_run, :here);
set @sendoff_clash = if(coalesce(@sendoff_run, :run) = :run, :first, 0)
