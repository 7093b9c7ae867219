-- purge: forget terminal rows of one kind (1 delivered, 3 dead), those that ended first of all first.
-- Guarantee: only terminal rows go; whoever else purges takes other rows, and nobody waits. Answers how
-- many there were. Index: outbox_event_aside, then the primary key, forced by a join.
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_rows
  from (select event_id, seq
          from sendoff.outbox_event force index (outbox_event_aside)
         where aside = :kind and aside_at < :cutoff
         order by aside_at, seq
         limit :limit
           for update skip locked) c;
delete e
  from json_table(@sendoff_rows, '$[*]' columns (
           id  char(32) path '$[0]',
           seq bigint   path '$[1]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where e.status in (1, 3);
commit;
select coalesce(json_length(@sendoff_rows), 0)
