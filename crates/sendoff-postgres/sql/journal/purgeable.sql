-- purgeable: how many facts `purge` would delete, counted up to a limit.
-- Index: primary keys.
select count(*)
  from (select from sendoff.journal_event e
         where e.position > $1::bigint
           and e.position <= least($2::bigint,
                                   (select min(last_position) from sendoff.journal_cursor),
                                   (select min(position) - 1 from sendoff.journal_parked))
           and ($3::timestamptz is null or e.recorded_at < $3::timestamptz)
         limit $4::bigint) found
