-- still: narrows journal_history to nothing where this fact is gone. Index: primary key.
and exists (select 1 from sendoff.journal_tag f force index (primary) where f.tag = :tag and f.position = :first)
