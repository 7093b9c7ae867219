-- rarest: how often a tag is there, as far as a hundred tell; for a union.
-- Index: primary key of journal_tag.
(select cast(:nth as signed), cast(count(*) as signed)
   from (select 1 from sendoff.journal_tag t force index (primary)
          where t.tag = :tag and t.position > :after and t.position <= :up_to
          limit 100) c)
