-- closed: the position of the last fact with a tag, of one of these types; else the beginning.
-- For journal_history. Index: primary key of journal_tag, backwards; then the primary key.
coalesce((select t.position
            from sendoff.journal_tag t force index (primary)
                 straight_join sendoff.journal_event e force index (primary) on e.position = t.position
           where t.tag = :tag and t.position <= :up_to :types
           order by t.position desc
           limit 1), 0)
