-- journal_owned: as journal_alone, for whoever counts what was locked by itself. Index: primary key.
select count(*) from sendoff.journal_anchor a force index (primary)
 where a.slot in (:slots) for update
