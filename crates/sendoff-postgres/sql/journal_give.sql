-- journal_give: gives pairs up that this owner has under this epoch; others stay as they are, and
-- so do those that somebody has locked.
-- Index: primary key.
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::bigint[]) as a(topic, publisher, epoch)
), locked as materialized (
    select c.topic, c.publisher
      from asked a join sendoff.journal_cursor c on c.topic = a.topic and c.publisher = a.publisher
     order by c.topic, c.publisher
       for update of c skip locked
)
update sendoff.journal_cursor c
   set leader = null, heartbeat_at = null, updated_at = clock_timestamp()
  from asked a join locked l on l.topic = a.topic and l.publisher = a.publisher
 where c.topic = a.topic and c.publisher = a.publisher
   and c.leader = $1::text and c.epoch = a.epoch
