-- append: appends facts in a transaction of its own; see the function.
-- Guarantee: a condition that was read in another run of the server, which `$17` began, does not hold.
-- Index: those of the function.
select outcome, place, at
  from sendoff.journal_append(
       $1::integer[], $2::boolean[],
       case when set_config('sendoff_journal.ring', 'on', true) = 'on' then $3::integer end,   -- [rings]
       case when set_config('sendoff_journal.ring', 'off', true) = 'off' then $3::integer end, -- [not rings]
       $4::uuid[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::jsonb[], $10::bytea[],
       $11::uuid[], $12::uuid[],
       $13::smallint[], $14::text[], $15::text[],
       case when $17::timestamptz <> pg_postmaster_start_time() then -1 else $16::bigint end)
