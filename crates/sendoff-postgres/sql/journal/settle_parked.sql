-- settle_parked: what became of a fact that was parked and tried again: it is forgotten
-- where there are no attempts, and due again, or not by itself any more, where there are.
-- Guarantee: only if this owner leads the pair under this epoch, which is locked first. Answers whether
-- it was, and whether it seems so: a row that somebody else has locked is not waited for.
-- Index: primary keys.
with led as materialized (
    select c.topic, c.publisher
      from sendoff.journal_cursor c
     where c.topic = $2::text and c.publisher = $3::text and c.leader = $1::text
       and c.epoch = $4::bigint
       for share skip locked
), published as (
    delete from sendoff.journal_parked k
     using led
     where k.topic = led.topic and k.publisher = led.publisher and k.position = $5::bigint
       and $6::integer is null
), failed as (
    update sendoff.journal_parked k
       set attempts = $6::integer, next_at = clock_timestamp() + $7::interval, error = $8::text
      from led
     where k.topic = led.topic and k.publisher = led.publisher and k.position = $5::bigint
       and $6::integer is not null
)
select exists (select from led),
       exists (select from sendoff.journal_cursor c
                where c.topic = $2::text and c.publisher = $3::text and c.leader = $1::text
                  and c.epoch = $4::bigint)
