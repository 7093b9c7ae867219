-- journal_share: lock anchors beside others who share them.
-- Guarantee: ascending, so that two who do this cannot deadlock; counts what it locked, so that an
-- anchor that is missing is noticed. Index: primary key.
set @sendoff_locked = @sendoff_locked
    + (select count(*) from sendoff.journal_anchor a force index (primary)
        where a.slot in (:slots) lock in share mode)
