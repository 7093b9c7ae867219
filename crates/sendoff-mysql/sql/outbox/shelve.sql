-- shelve: takes rows in line out of the way of walks: those of a window that are older than :age and whose key's
-- entry is parked, or has not moved for as long.
-- Guarantee: whatever somebody has locked stays as it is. An entry is locked before its rows and says that there are
-- some, so that it is not taken off the list beside this. Answers how many rows.
-- Index: outbox_event_due; primary keys, forced by joins.
-- text shelve
select json_arrayagg(json_array(hex(e.event_id), e.seq, hex(e.ordering_key))),
       concat('["', group_concat(distinct hex(e.ordering_key) order by 1 separator '","'), '"]')
  into @sendoff_ahead, @sendoff_keys
  from (select e.event_id, e.seq, e.ordering_key
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at = date'9998-01-01' and e.seq > :after and e.seq <= :last
           and e.created_at < utc_timestamp(6) - interval :age microsecond
         order by e.seq
         limit :limit) e
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = e.ordering_key
 where {stands};
start transaction;
select group_concat(s.k) into @sendoff_keys
  from json_table(@sendoff_keys, '$[*]' columns (k varchar(1024) path '$')) s
       straight_join sendoff.outbox_key k force index (primary)
           on k.ordering_key = convert(unhex(s.k) using utf8mb4)
 where {stands}
   for update /*!80001 of k */ skip locked;
select json_arrayagg(json_array(s.id, s.seq, s.k)) into @sendoff_rows
  from json_table(@sendoff_ahead, '$[*]' columns (
           id  char(32)      path '$[0]',
           seq bigint        path '$[1]',
           k   varchar(1024) path '$[2]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where find_in_set(s.k, @sendoff_keys) and e.status in (0, 2) and e.due_at = date'9998-01-01'
   for update /*!80001 of e */ skip locked;
update json_table(@sendoff_rows, '$[*]' columns (k varchar(1024) path '$[2]')) s
       straight_join sendoff.outbox_key k force index (primary)
           on k.ordering_key = convert(unhex(s.k) using utf8mb4)
   set k.shelved = 1;
update json_table(@sendoff_rows, '$[*]' columns (
           id  char(32) path '$[0]',
           seq bigint   path '$[1]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.due_at = date'9999-01-01'
 where e.status in (0, 2);
commit;
select coalesce(json_length(@sendoff_rows), 0)

-- part stands
(k.parked_by is not null or k.since < utc_timestamp(6) - interval :age microsecond)
