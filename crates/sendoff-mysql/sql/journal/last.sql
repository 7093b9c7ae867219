-- last: notes what is below the last fact that these searches find, or where they begin.
-- Index: those of the searches.
set @sendoff_last = (select coalesce(max(f.position) - 1, :after) from (:searches) f)
