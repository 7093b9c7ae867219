-- hole: up to where the run of closed numbers goes that this number is in; no row where it is
-- in none. Index: primary key.
select cast(h.last_position as signed)
  from sendoff.journal_hole h force index (primary)
 where h.last_position >= :number and h.first_position <= :number
 order by h.last_position desc
 limit 1
