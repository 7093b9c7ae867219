-- lock: locks anchors, as the terms say one after the other, and notes how many there were;
-- nothing was found yet, and no gate was passed.
-- Guarantee: ascending, so that two who do this cannot deadlock. Index: those of the terms.
set @sendoff_locked = :anchors, @sendoff_clash = null, @sendoff_gate = null
