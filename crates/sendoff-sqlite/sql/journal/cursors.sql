-- cursors: where every pair is, and who leads it. Index: primary key.
select topic, publisher, last_position, status, error_count, substr(last_error, 1, 500), leader, epoch,
       published_at, waits_at, waits_since
  from journal_cursor
 order by topic, publisher
