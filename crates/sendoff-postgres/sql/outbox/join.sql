-- What is done in the caller's transaction beside writing events. Answers yes or no in one row, and with no row
-- where no transaction is known to be open, as `write_one` does: then nothing was done.
-- Parameters are texts, which every driver has.

-- once: remember that a consumer ($1) saw an event ($2).
-- Guarantee: see the function. Index: primary key of the inbox.
-- text once
select sendoff.sendoff_once($1::text, $2::text::uuid) as answer
 where {known}

-- settle_in: mark an event ($1) as delivered that is held by a token ($2), and keep its row or not ($3).
-- Guarantee: see the function. Index: primary key.
-- text settle_in
select sendoff.outbox_settle_in($1::text::uuid, $2::text::timestamptz, $3::text::boolean) as answer
 where {known}

-- part known
case when pg_current_xact_id_if_assigned() is not null
          or current_setting('sendoff_capture.in_transaction', true) = 'yes'
     then true else false end
