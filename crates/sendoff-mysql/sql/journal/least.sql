-- least: the first position that several searches find. Index: those of the searches.
(select min(f.position) from (:searches) f)
