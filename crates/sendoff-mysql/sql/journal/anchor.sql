-- anchor: locks an anchor, beside others who share it or alone; 1, or 0 where it is missing. A
-- term of journal_lock and journal_hold. Index: primary key.
(select max(a.slot) is not null from sendoff.journal_anchor a where a.slot = :slot :mode)
