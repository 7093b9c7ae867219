-- journal_begin: nothing is locked, and nothing was found yet. Index: none.
set @sendoff_locked = 0, @sendoff_clash = null
