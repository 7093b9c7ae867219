-- change: an operator's change of pairs: 1 pause, 2 resume, 3 reset, or another position.
-- Guarantee: whoever leads them finds it at the next round, and cannot write over another position. The
-- answer is how many pairs are meant. Index: primary key; there is a row for each pair.
start transaction;
select count(*) from sendoff.journal_cursor c force index (primary)
 where (:topic is null or c.topic = :topic) and (:publisher is null or c.publisher = :publisher)
   for update;
update sendoff.journal_cursor c force index (primary)
   set c.error_count = case when :change = 3 then 0 else c.error_count end,
       c.last_error = case when :change = 3 then null else c.last_error end,
       c.waits_at = case when :change in (0, 3) then null else c.waits_at end,
       c.waits_since = case when :change in (0, 3) then null else c.waits_since end,
       c.last_position = coalesce(:to, c.last_position),
       c.updated_at = utc_timestamp(6),
       c.status = case when :change = 1 then 'PAUSED'
                       when :change = 3 then 'ACTIVE'
                       when :change = 2 and c.status = 'PAUSED' then 'ACTIVE'
                       else c.status end
 where (:topic is null or c.topic = :topic) and (:publisher is null or c.publisher = :publisher);
commit
