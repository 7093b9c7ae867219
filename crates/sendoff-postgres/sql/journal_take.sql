-- journal_take: takes pairs that stand as they were seen and whose leader is not alive.
-- Guarantee: locked, then compared as they are under the lock; each time of leading has an epoch of its
-- own, and whoever had the pair before can move nothing any more. What somebody has locked is left out,
-- and not waited for.
-- Index: primary key.
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::text[], $5::bigint[])
                  as a(topic, publisher, leader, epoch)
), locked as materialized (
    select c.topic, c.publisher
      from asked a join sendoff.journal_cursor c on c.topic = a.topic and c.publisher = a.publisher
     order by c.topic, c.publisher
       for update of c skip locked
)
update sendoff.journal_cursor c
   set leader = $1::text, epoch = c.epoch + 1, heartbeat_at = clock_timestamp(),
       updated_at = clock_timestamp()
  from asked a join locked l on l.topic = a.topic and l.publisher = a.publisher
 where c.topic = a.topic and c.publisher = a.publisher
   and c.epoch = a.epoch and c.leader is not distinct from a.leader
   and (c.leader is null or not sendoff.journal_alive(c.leader))
returning c.topic, c.publisher, c.last_position, c.status, c.error_count, left(c.last_error, 500),
          c.leader, c.epoch, c.published_at
