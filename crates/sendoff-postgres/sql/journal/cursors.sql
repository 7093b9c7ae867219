-- cursors: where every pair is, and who leads it. One statement for all of them.
-- Index: primary key.
select topic, publisher, last_position, status, error_count, left(last_error, 500), leader, epoch,
       published_at, waits_at, waits_since
  from sendoff.journal_cursor
 order by topic, publisher
