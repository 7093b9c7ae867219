-- journal_alone: lock anchors alone; see journal_share. Index: primary key.
set @sendoff_locked = @sendoff_locked
    + (select count(*) from sendoff.journal_anchor a force index (primary)
        where a.slot in (:slots) for update)
