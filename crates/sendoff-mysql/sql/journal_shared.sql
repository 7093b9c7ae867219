-- journal_shared: as journal_share, for whoever counts what was locked by itself. Index: primary key.
select count(*) from sendoff.journal_anchor a force index (primary)
 where a.slot in (:slots) lock in share mode
