-- Who leads pairs. Each is locked, and then compared as it is under the lock; what somebody else has
-- locked is left out, and not waited for. Index: primary key.

-- take: takes pairs that stand as they were seen and whose leader is not alive.
-- Guarantee: each time of leading has an epoch of its own, and whoever had the pair before can move
-- nothing any more.
-- text take
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::text[], $5::bigint[])
                  as a(topic, publisher, leader, epoch)
), locked as materialized (
    {locked}
)
update sendoff.journal_cursor c
   set leader = $1::text, epoch = c.epoch + 1, heartbeat_at = clock_timestamp(),
       updated_at = clock_timestamp()
  from {asked}
   and c.epoch = a.epoch and c.leader is not distinct from a.leader
   and (c.leader is null or not sendoff.journal_alive(c.leader))
returning c.topic, c.publisher, c.last_position, c.status, c.error_count, left(c.last_error, 500),
          c.leader, c.epoch, c.published_at, c.waits_at, c.waits_since

-- give: gives pairs up that this owner has under this epoch; others stay as they are.
-- text give
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::bigint[]) as a(topic, publisher, epoch)
), locked as materialized (
    {locked}
)
update sendoff.journal_cursor c
   set leader = null, heartbeat_at = null, updated_at = clock_timestamp()
  from {asked}
   and c.leader = $1::text and c.epoch = a.epoch

-- part locked
select c.topic, c.publisher
  from asked a join sendoff.journal_cursor c on c.topic = a.topic and c.publisher = a.publisher
 order by c.topic, c.publisher
   for update of c skip locked

-- part asked
asked a join locked l on l.topic = a.topic and l.publisher = a.publisher
where c.topic = a.topic and c.publisher = a.publisher
