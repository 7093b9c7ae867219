-- settle_parked: what became of a fact that was parked and tried again: it is forgotten
-- where there are no attempts, and due again, or not by itself any more, where there are.
-- Guarantee: only if this owner leads the pair under this epoch, which is locked first. Answers whether
-- it was, and whether it seems so: a row that somebody else has locked is not waited for.
-- Index: primary keys.
start transaction;
select count(*) into @sendoff_led from sendoff.journal_cursor c force index (primary)
 where c.topic = :topic and c.publisher = :publisher and c.leader = :owner and c.epoch = :epoch
   for update skip locked;
delete from sendoff.journal_parked
 where topic = :topic and publisher = :publisher and position = :position
   and @sendoff_led = 1 and :attempts is null;
update sendoff.journal_parked
   set attempts = :attempts, next_at = utc_timestamp(6) + interval :delay microsecond,
       error = :error
 where topic = :topic and publisher = :publisher and position = :position
   and @sendoff_led = 1 and :attempts is not null;
select cast(@sendoff_led as signed), count(*) from sendoff.journal_cursor c
 where c.topic = :topic and c.publisher = :publisher and c.leader = :owner and c.epoch = :epoch;
commit
