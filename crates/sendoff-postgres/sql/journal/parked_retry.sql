-- parked_retry: makes what is parked due now.
-- Guarantee: all of it at one time, so that it is tried in the order of positions. Index: primary key.
update sendoff.journal_parked
   set next_at = statement_timestamp()
 where ($1::text is null or topic = $1::text)
   and ($2::text is null or publisher = $2::text)
   and ($3::bigint is null or position = $3::bigint)
returning true
