-- The state of server and sequence, and then the rows above a position up to another, in order.
-- Guarantee: one statement, so that the rows are of the server that the first row is about. The last of its
-- numbers is for how many seconds appends still ring. It does not lock as an append does, so that one who is slow to
-- take the rows is nobody's holder; the head is a statement before it.
-- Index: primary key.

-- tail: of a row that has more than $3 bytes there is no payload.
-- Guarantee: all of them are never more than $2 times $3 bytes. A bound for each is cheaper than one for
-- all, for which every row would have to be kept until the sum is known.
-- text tail
{state}
union all
(select null, e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at,
       case when octet_length(e.payload) + pg_column_size(e.headers) <= $3::bigint then e.headers end,
       case when octet_length(e.payload) + coalesce(pg_column_size(e.headers), 0) <= $3::bigint
            then e.payload end, e.correlation_id, e.causation_id
  from sendoff.journal_event e
 where e.position > $1::bigint and e.position <= $4::bigint
 order by e.position
 limit $2::bigint)

-- tail_large: where rows are large, as many as fit into so many bytes together, and the first
-- always. Of the first that does not fit there is no payload.
-- Guarantee: sizes are known without reading what is stored apart, so nothing is read that is not sent.
-- text tail_large
{state}
union all
(select null, s.position, s.recorded_at, s.event_id, s.event_type, s.tags, s.content_type,
       s.occurred_at, case when s.total <= s.most then s.headers end,
       case when s.total <= s.most then s.payload end, s.correlation_id, s.causation_id
  from (select e.*, sum(e.size) over in_order as total,
               greatest($3::bigint, first_value(e.size) over in_order) as most
          from (select *, octet_length(payload) + coalesce(pg_column_size(headers), 0) as size
                  from sendoff.journal_event
                 where position > $1::bigint and position <= $4::bigint
                 order by position
                 limit $2::bigint) as e
        window in_order as (order by e.position rows unbounded preceding)) as s
 where s.total - s.size <= s.most
 order by s.position)

-- part state
(select array[(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint,
              pg_is_in_recovery()::integer, q.seqcache, q.seqincrement, q.seqcycle::integer,
              pg_sequence_last_value('sendoff.journal_bell')
              - extract(epoch from clock_timestamp())::bigint] as state,
       null::bigint as position, null::timestamptz as recorded_at, null::uuid as event_id,
       null::text as event_type, null::text[] as tags, null::text as content_type,
       null::timestamptz as occurred_at, null::jsonb as headers, null::bytea as payload,
       null::uuid as correlation_id, null::uuid as causation_id
  from pg_sequence q
 where q.seqrelid = 'sendoff.journal_position'::regclass)
