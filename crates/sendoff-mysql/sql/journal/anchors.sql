-- anchors: the same for many of one mode, which it counts. Index: primary key.
(select count(*) from sendoff.journal_anchor a force index (primary) where a.slot in (:slots) :mode)
