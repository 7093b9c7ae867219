-- journal_passed: up to where every number is decided, and what everybody has passed and nobody has set
-- aside.
-- Index: primary keys; there is a row for each pair and for each fact that was set aside.
select cast(f.position as signed),
       cast(least(coalesce((select min(last_position) from sendoff.journal_cursor),
                           9223372036854775807),
                  coalesce((select min(position) - 1 from sendoff.journal_parked),
                           9223372036854775807)) as signed)
  from sendoff.journal_floor f
 where f.one = 1
