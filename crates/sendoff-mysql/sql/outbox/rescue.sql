-- rescue: put rows right that a clock which has since stepped back left in the future: holds that end
-- later than any hold may, rows nobody holds that were created in the future, and delays that are
-- longer than any.
-- Guarantee: no other row is touched; who held a row stays known, so that its loss is counted; a delay
-- lasts as long as it was asked for. Rows that somebody has locked are left for another time. Answers
-- how many there were. Index: outbox_event_due, then the primary key, forced by a join.
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
         where e.due_at > utc_timestamp(6)
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
select coalesce(json_length(@sendoff_rows), 0)
