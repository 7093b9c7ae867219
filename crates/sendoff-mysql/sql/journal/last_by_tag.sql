-- last_by_tag: the last fact with all the tags of an item, of one of its types; for a union.
-- Index: primary key of journal_tag, backwards, by the first tag; then primary keys.
(select t.position
   from sendoff.journal_tag t force index (primary)
        straight_join sendoff.journal_event e force index (primary) on e.position = t.position
  where t.tag = :tag and t.position > :after and t.position <= :up_to :types :others
  order by t.position desc
  limit 1)
