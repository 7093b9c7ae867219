-- append_in: appends facts in a transaction of the caller's; see the function.
-- Guarantee: where none is open, nothing is appended and no row answers, because the mark of
-- `in_transaction`, sent just before, is gone by then. The function depends on the row of the mark, or
-- it would be carried out first. Where it does not ring, nothing of the transaction that comes later
-- does, so that it can be prepared. Conditions of other runs of the server are as in journal_append.
-- Index: those of the function.
with asked as materialized (
    select
           $3::integer                                                                            -- [rings]
           case when set_config('sendoff_journal.ring', 'off', true) = 'off' then $3::integer end -- [not rings]
           as patience
     where current_setting('sendoff_capture.in_transaction', true) = 'yes'
)
select answer.outcome, answer.place, answer.at
  from asked
 cross join lateral sendoff.journal_append(
       $1::integer[], $2::boolean[], asked.patience,
       $4::uuid[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::jsonb[], $10::bytea[],
       $11::uuid[], $12::uuid[],
       $13::smallint[], $14::text[], $15::text[],
       case when $17::timestamptz <> pg_postmaster_start_time() then -1 else $16::bigint end) as answer
