-- others: narrows journal_by_tag and journal_last_by_tag to facts that have these tags as well.
-- Index: primary key of journal_tag.
and (select count(*) from sendoff.journal_tag o force index (primary)
      where o.tag in (:others) and o.position = t.position :locking) = :others_count
