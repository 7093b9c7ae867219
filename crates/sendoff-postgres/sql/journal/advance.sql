-- advance: moves cursors, and parks what they leave behind.
-- Guarantee: a cursor moves only if this owner leads its pair under this epoch and it is where the move
-- comes from, so that neither an old leader nor a late one undoes what somebody else wrote; a status
-- that an operator set stays. Since when a pair waits at a fact is kept as long as it is the same. What is parked is there if and only if its cursor moved. A row
-- that somebody has locked is not waited for: without a status it is told of as busy, unless what is
-- visible of it says already that it is another's, or somewhere else. A move that goes nowhere asks where
-- the cursor is, also once a transaction that may be open has ended: that one is busy until then.
-- Index: primary keys.
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                         $7::boolean[], $8::integer[], $9::text[], $10::bigint[], $11::boolean[])
                  as a(topic, publisher, epoch, came_from, goes_to, published, errors, error, waits_at,
                       fails)
), locked as materialized (
    select c.topic, c.publisher
      from asked a join sendoff.journal_cursor c on c.topic = a.topic and c.publisher = a.publisher
     order by c.topic, c.publisher
       for update of c skip locked
), moved as (
    update sendoff.journal_cursor c
       set last_position = a.goes_to,
           error_count = a.errors,
           last_error = case when a.errors = 0 or a.error is not null then a.error
                             else c.last_error end,
           waits_at = a.waits_at,
           waits_since = case when a.waits_at is null then null
                              when a.waits_at = c.waits_at then c.waits_since
                              else clock_timestamp() end,
           status = case when a.fails and c.status = 'ACTIVE' then 'FAILED' else c.status end,
           published_at = case when a.published then clock_timestamp() else c.published_at end,
           heartbeat_at = clock_timestamp(),
           updated_at = clock_timestamp()
      from asked a join locked l on l.topic = a.topic and l.publisher = a.publisher
     where c.topic = a.topic and c.publisher = a.publisher
       and c.leader = $1::text and c.epoch = a.epoch and c.last_position = a.came_from
    returning c.topic, c.publisher, c.status
), set_aside as (
    insert into sendoff.journal_parked as k (topic, publisher, position, attempts, next_at, error)
    select p.topic, p.publisher, p.position, p.attempts, clock_timestamp() + p.delay, p.error
      from unnest($12::text[], $13::text[], $14::bigint[], $15::integer[], $16::interval[],
                  $17::text[]) as p(topic, publisher, position, attempts, delay, error)
      join moved m on m.topic = p.topic and m.publisher = p.publisher
    on conflict (topic, publisher, position) do update
       set attempts = excluded.attempts, next_at = excluded.next_at, error = excluded.error
)
select topic, publisher, status from moved
union all
select a.topic, a.publisher, null
  from asked a join sendoff.journal_cursor c on c.topic = a.topic and c.publisher = a.publisher
 where c.leader = $1::text and c.epoch = a.epoch
   and (c.last_position = a.came_from or a.came_from = a.goes_to)
   and not exists (select from locked l where l.topic = a.topic and l.publisher = a.publisher)
