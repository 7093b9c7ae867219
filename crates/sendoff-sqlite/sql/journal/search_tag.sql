-- search_tag: positions of facts with this tag and all of these, of one of these types or of any.
-- Guarantee: the lowest first. The caller chooses the rarest tag. Index: primary keys.
select t.position
  from journal_tag t
  join journal_event e on e.position = t.position
 where t.tag = ?1 and t.position > ?2 and t.position <= ?3
   and not exists (select 1 from json_each(?4) as asked
                    where not exists (select 1 from journal_tag o
                                       where o.tag = asked.value and o.position = t.position))
   and (?5 is null or e.event_type in (select value from json_each(?5)))
 order by t.position
 limit ?6
