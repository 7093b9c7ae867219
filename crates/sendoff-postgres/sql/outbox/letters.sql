-- Dead letters, in the order in which they died, between two times ($1 to $2) and after a place ($3, $4).
-- Guarantee: walks dead rows only, however many others there are; neither payload nor headers are read. What a
-- filter does not say ($5 to $11) is NULL. Errors are searched letter by letter, without patterns.
-- Index: outbox_event_dead, in its order.

-- letters, letters_newest: those that meet a filter, $12 at most.
-- text letters, letters_newest
select event_id, seq, event_type, aggregate_type, aggregate_id, tenant_id, attempts, created_at, done_at,
       last_error
  from sendoff.outbox_event
 where {meant}
 order by done_at, seq            -- [letters]
 order by done_at desc, seq desc  -- [letters_newest]
 limit $12::bigint

-- letters_count: how many of them there are, up to $12.
-- text letters_count
select count(*)
  from (select from sendoff.outbox_event
         where {meant}
         order by done_at, seq
         limit $12::bigint) found

-- part meant
status = 3 and done_at between $1::timestamptz and $2::timestamptz
and (done_at, seq) > ($3::timestamptz, $4::bigint)  -- [letters, letters_count]
and (done_at, seq) < ($3::timestamptz, $4::bigint)  -- [letters_newest]
and ($5::text is null or event_type = $5::text)
and ($6::text is null or aggregate_type = $6::text)
and ($7::text is null or aggregate_id = $7::text)
and ($8::text is null or tenant_id = $8::text)
and ($9::text is null or strpos(last_error, $9::text) > 0)
and ($10::bigint is null or attempts >= $10::bigint)
and ($11::bigint is null or attempts <= $11::bigint)
