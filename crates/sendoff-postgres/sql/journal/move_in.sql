-- move_in: move a pair's cursor ($1, $2) from a position ($5) to another ($6) in the transaction of an effect, if this
-- owner ($3) leads the pair under this epoch ($4); answers yes or no in one row, and with no row where no transaction
-- is known to be open: then nothing was done. Parameters are texts, which every driver has.
-- Guarantee: it moves if and only if the caller's transaction commits, and neither an old leader nor a late one
-- undoes what somebody else wrote; a status that an operator set stays. The lock lives in that transaction only (I10),
-- and nobody else moves, takes or gives the pair before its end. A row that somebody has locked is not waited for:
-- it raises lock_not_available (55P03). Index: primary key.
with known as materialized (
    select 1 where {known}
), locked as materialized (
    select c.topic, c.publisher
      from known, sendoff.journal_cursor c
     where c.topic = $1::text and c.publisher = $2::text
       and c.leader = $3::text and c.epoch = $4::text::bigint and c.last_position = $5::text::bigint
       for update of c nowait
), moved as (
    update sendoff.journal_cursor c
       set last_position = $6::text::bigint,
           error_count = 0,
           last_error = null,
           waits_at = null,
           waits_since = null,
           published_at = clock_timestamp(),
           heartbeat_at = clock_timestamp(),
           updated_at = clock_timestamp()
      from locked l
     where c.topic = l.topic and c.publisher = l.publisher
       and c.leader = $3::text and c.epoch = $4::text::bigint and c.last_position = $5::text::bigint
    returning true
)
select exists (select from moved) as answer
  from known

-- part known
case when pg_current_xact_id_if_assigned() is not null
          or current_setting('sendoff_capture.in_transaction', true) = 'yes'
     then true else false end
