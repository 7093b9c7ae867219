-- count_tag: how often a tag is there, as far as a hundred tell. Index: primary key.
select count(*)
  from (select 1 from journal_tag
         where tag = ?1 and position > ?2 and position <= ?3 limit 100)
