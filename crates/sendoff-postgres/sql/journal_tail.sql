-- journal_tail: the state of server and sequence, and then the rows above a position up to another, in
-- order. Of a row that has more than $3 bytes its position is told, and nothing else.
-- Guarantee: one statement, so that the rows are of the server that the first row is about. All of them are
-- never more than $2 times $3 bytes. A bound for each is cheaper than one for all, for which every row would
-- have to be kept until the sum is known.
-- Index: primary key.
(select array[(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint,
              pg_is_in_recovery()::integer, q.seqcache, q.seqincrement, q.seqcycle::integer,
              (select case when is_called then last_value else 0 end
                 from sendoff.journal_position)] as state,
       null::bigint as position, null::timestamptz as recorded_at, null::uuid as event_id,
       null::text as event_type, null::text[] as tags, null::text as content_type,
       null::timestamptz as occurred_at, null::jsonb as headers, null::bytea as payload,
       null::uuid as correlation_id, null::uuid as causation_id, null::boolean as fits
  from pg_sequence q
 where q.seqrelid = 'sendoff.journal_position'::regclass)
union all
(select null, e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at,
       case when octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $3::bigint
            then e.headers end,
       case when octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $3::bigint
            then e.payload end, e.correlation_id, e.causation_id,
       octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $3::bigint
  from sendoff.journal_event e
 where e.position > $1::bigint and e.position <= $4::bigint
 order by e.position
 limit $2::bigint)
