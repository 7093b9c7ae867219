-- forget_seen: forget what consumers saw, the oldest first. Answers how many.
-- Guarantee: at most as many as the limit; whoever else forgets takes other rows, and nobody waits.
-- Index: inbox_event_seen; then the primary key, forced by a join.
start transaction;
select json_arrayagg(json_array(hex(c.consumer), hex(c.event_id))) into @sendoff_rows
  from (select consumer, event_id
          from sendoff.inbox_event force index (inbox_event_seen)
         where seen_at < :cutoff
         order by seen_at
         limit :limit
           for update skip locked) c;
delete i
  from json_table(@sendoff_rows, '$[*]' columns (
           consumer varchar(1024) path '$[0]',
           id       char(32)      path '$[1]')) s
       straight_join sendoff.inbox_event i force index (primary)
           on i.consumer = convert(unhex(s.consumer) using utf8mb4) and i.event_id = unhex(s.id);
commit;
select coalesce(json_length(@sendoff_rows), 0)
