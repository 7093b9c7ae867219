-- Delivered events, in the order in which they were delivered, between two times ($1 to $2) and after a place
-- ($3, $4).
-- Guarantee: reads only; walks delivered rows alone, and no more of them than a step has, however few meet a
-- filter. What a filter does not say ($7 to $11) is NULL. Index: outbox_event_done, which has no numbers: a step ends
-- after all rows of its last moment, so that only rows of one step are ever sorted.

-- replay_step: the end of the moment at which the next $5 rows end; none where there are no more.
-- text replay_step
select done_at, 9223372036854775807
  from sendoff.outbox_event
 where {walked}
 order by done_at
 limit 1 offset $5::bigint

-- replay: those up to a place ($5, $6) that meet a filter, $12 at most, with no more than $13 bytes together, but
-- always one; and how many rows met it. The length of a payload is known without reading it.
-- text replay
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
       content_type, occurred_at, headers, payload,
       created_at, done_at, seq, found
  from (select *, sum(size) over reading as total, row_number() over reading as place,
               count(*) over () as found
          from (select *, {size} as size
                  from sendoff.outbox_event
                 where {walked} and {meant}
                 order by done_at, seq
                 limit $12::bigint) meant
        window reading as (order by done_at, seq rows unbounded preceding)) fitting
 where total <= $13::bigint or place = 1
 order by place

-- replay_count: how many of them there are.
-- text replay_count
select count(*) from sendoff.outbox_event where {walked} and {meant}

-- part walked
status = 1 and done_at between $1::timestamptz and $2::timestamptz
and (done_at, seq) > ($3::timestamptz, $4::bigint)

-- part meant
(done_at, seq) <= ($5::timestamptz, $6::bigint)
and ($7::text is null or event_type = $7::text)
and ($8::text is null or aggregate_type = $8::text)
and ($9::text is null or aggregate_id = $9::text)
and ($10::text is null or tenant_id = $10::text)
and ($11::text is null or ordering_key = $11::text)

-- Bytes of a payload and its headers.
-- part size
octet_length(payload)
  + case when headers is null then 0
         when pg_column_size(headers) <= 200 then pg_column_size(headers)
         else octet_length(headers::text) end
