-- rescue: put rows right that a clock which has since stepped back left in the future: holds that end
-- later than any hold may, rows nobody holds that were created in the future, and delays that are
-- longer than any. Of rows in line, which are due in a far year that is no time, only when they were created; and
-- keys that are held, or wait, for longer than any may are looked at now.
-- Guarantee: no other row is touched; who held a row stays known, so that its loss is counted; a delay
-- lasts as long as it was asked for. Rows that somebody has locked are left for another time. Answers
-- how many rows there were; of those in line it looks at the last :limit.
-- Index: outbox_event_due, outbox_key_flows, then primary keys, forced by joins.
-- text rescue
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.due_at as char), cast(c.created_at as char)))
  into @sendoff_rows
  from (select e.event_id, e.seq,
               case when e.locked_by is null and e.created_at > utc_timestamp(6) + interval :slack microsecond
                         and e.due_at >= e.created_at
                    then e.due_at - interval
                         timestampdiff(microsecond, utc_timestamp(6), e.created_at) microsecond
                    else utc_timestamp(6) end as due_at,
               case when e.locked_by is null and e.created_at > utc_timestamp(6) + interval :slack microsecond
                         and e.due_at >= e.created_at
                    then utc_timestamp(6) else e.created_at end as created_at
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at > utc_timestamp(6) and e.due_at < date'9998-01-01'
           and case when e.locked_by is not null
                    then e.due_at > utc_timestamp(6) + interval :longest microsecond
                    else e.due_at > utc_timestamp(6) + interval :longest_delay microsecond
                         or (e.created_at > utc_timestamp(6) + interval :slack microsecond
                             and e.due_at >= e.created_at) end
         order by e.due_at, e.seq
         limit :limit
           for update skip locked) c;
update json_table(@sendoff_rows, '$[*]' columns (
           id         char(32) path '$[0]',
           seq        bigint   path '$[1]',
           due_at     char(26) path '$[2]',
           created_at char(26) path '$[3]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.due_at = cast(s.due_at as datetime(6)), e.created_at = cast(s.created_at as datetime(6))
 where e.status in (0, 2);
commit;
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_ahead
  from (select e.event_id, e.seq, e.created_at
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at = date'9998-01-01'
         order by e.due_at desc, e.seq desc
         limit :limit) c
 where c.created_at > utc_timestamp(6) + interval :slack microsecond;
start transaction;
select json_arrayagg(json_array(s.id, s.seq)) into @sendoff_ahead
  from {ahead}
   for update /*!80001 of e */ skip locked;
update {ahead}
   set e.created_at = utc_timestamp(6)
 where e.due_at >= date'9998-01-01';
select json_arrayagg(hex(c.ordering_key)) into @sendoff_keys
  from (select k.ordering_key
          from sendoff.outbox_key k force index (outbox_key_flows)
         where k.flows_at > utc_timestamp(6) + interval :longest microsecond
           and (k.locked_by is not null or k.flows_at > utc_timestamp(6) + interval :longest_delay microsecond)
         order by k.flows_at desc
         limit :limit
           for update skip locked) c;
update json_table(@sendoff_keys, '$[*]' columns (k varchar(1024) path '$')) s
       straight_join sendoff.outbox_key k force index (primary)
           on k.ordering_key = convert(unhex(s.k) using utf8mb4)
   set k.due_at = utc_timestamp(6);
commit;
select coalesce(json_length(@sendoff_rows), 0) + coalesce(json_length(@sendoff_ahead), 0)

-- part ahead
json_table(@sendoff_ahead, '$[*]' columns (
    id  char(32) path '$[0]',
    seq bigint   path '$[1]')) s
straight_join sendoff.outbox_event e force index (primary)
    on e.event_id = unhex(s.id) and e.seq = s.seq
