-- change: an operator's change of pairs: PAUSE, RESUME, RESET, or another position.
-- Guarantee: whoever leads them finds it at the next round, and cannot write over another position.
-- Index: primary key; there is a row for each pair.
with locked as materialized (
    select c.topic, c.publisher
      from sendoff.journal_cursor c
     where ($1::text is null or c.topic = $1::text)
       and ($2::text is null or c.publisher = $2::text)
     order by c.topic, c.publisher
       for update
)
update sendoff.journal_cursor c
   set status = case when $3::text = 'PAUSE' then 'PAUSED'
                     when $3::text = 'RESET' then 'ACTIVE'
                     when $3::text = 'RESUME' and c.status = 'PAUSED' then 'ACTIVE'
                     else c.status end,
       error_count = case when $3::text = 'RESET' then 0 else c.error_count end,
       last_error = case when $3::text = 'RESET' then null else c.last_error end,
       waits_at = case when $3::text in ('RESET', 'MOVE') then null else c.waits_at end,
       waits_since = case when $3::text in ('RESET', 'MOVE') then null else c.waits_since end,
       last_position = coalesce($4::bigint, c.last_position),
       updated_at = clock_timestamp()
  from locked l
 where c.topic = l.topic and c.publisher = l.publisher
returning true
