-- journal_begin: nothing is locked, nothing was found yet, and no gate was passed. Index: none.
set @sendoff_locked = 0, @sendoff_clash = null, @sendoff_gate = null
