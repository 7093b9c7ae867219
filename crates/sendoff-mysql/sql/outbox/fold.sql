-- fold: adds up what settlements counted, and forgets types of which nothing ended for a long time.
-- Guarantee: every count is in `topics` once, before and after. What somebody else folds, or has not
-- committed, is left out and not waited for. Takes nothing that a settlement needs. Answers how many
-- parts there were. Index: primary keys; the counters are a handful.
start transaction;
select json_arrayagg(json_array(c.part, hex(c.event_type), c.status, c.count)) into @sendoff_parts
  from (select part, event_type, status, count
          from sendoff.outbox_tally_delta limit :limit for update skip locked) c;
insert into sendoff.outbox_tally (event_type, status, count, ended_at)
select convert(unhex(s.type) using utf8mb4), s.status, s.count, utc_timestamp(6)
  from (select p.type, p.status, sum(p.count) as count
          from json_table(@sendoff_parts, '$[*]' columns (
                   type   varchar(1024) path '$[1]',
                   status int           path '$[2]',
                   count  bigint        path '$[3]')) p
         group by p.type, p.status) s
 order by s.type, s.status
on duplicate key update sendoff.outbox_tally.count = sendoff.outbox_tally.count + values(count),
                        sendoff.outbox_tally.ended_at = utc_timestamp(6);
delete from sendoff.outbox_tally where ended_at < utc_timestamp(6) - interval :remember microsecond;
delete p
  from json_table(@sendoff_parts, '$[*]' columns (
           part   bigint        path '$[0]',
           type   varchar(1024) path '$[1]',
           status int           path '$[2]')) s
       straight_join sendoff.outbox_tally_delta p force index (primary)
           on p.part = s.part and p.event_type = convert(unhex(s.type) using utf8mb4)
              and p.status = s.status;
commit;
select coalesce(json_length(@sendoff_parts), 0)
