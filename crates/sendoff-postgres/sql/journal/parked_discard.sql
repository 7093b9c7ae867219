-- parked_discard: forgets what is parked. Index: primary key.
delete from sendoff.journal_parked
 where ($1::text is null or topic = $1::text)
   and ($2::text is null or publisher = $2::text)
   and ($3::bigint is null or position = $3::bigint)
returning true
