-- passed: up to where every number is decided, what everybody has passed and nobody has set
-- aside, and up to where facts were let go.
-- Index: primary keys; there is a row for each pair and for each fact that was parked.
select cast(f.position as signed),
       cast(least(coalesce((select min(last_position) from sendoff.journal_cursor),
                           9223372036854775807),
                  coalesce((select min(position) - 1 from sendoff.journal_parked),
                           9223372036854775807)) as signed),
       cast(g.position as signed)
  from sendoff.journal_floor f
       cross join sendoff.journal_gone g
 where f.one = 1 and g.one = 1
