-- cursors: where every pair is, and who leads it. One statement for all of them.
-- Index: primary key.
select c.topic, c.publisher, c.last_position, c.status, c.error_count, left(c.last_error, 500),
       c.leader, c.epoch, c.published_at, c.waits_at, c.waits_since
  from sendoff.journal_cursor c
 order by c.topic, c.publisher
