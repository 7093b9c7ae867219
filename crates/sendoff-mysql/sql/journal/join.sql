-- join: adds a node, or has it back; forgets those that are long dead, unless somebody has locked
-- them.
-- Index: primary key, forced by a join; the table has a row for each node.
start transaction;
select json_arrayagg(hex(d.owner)) into @sendoff_rows
  from (select n.owner
          from sendoff.journal_node n
         where n.heartbeat_at + interval n.lease microsecond + interval 1 hour < utc_timestamp(6)
           and n.owner <> :owner
           for update skip locked) d;
delete n
  from json_table(coalesce(@sendoff_rows, '[]'), '$[*]' columns (owner varchar(2048) path '$')) d
       straight_join sendoff.journal_node n force index (primary)
       on n.owner = convert(unhex(d.owner) using utf8mb4) collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
commit;
insert into sendoff.journal_node (owner, lock_name, started_at, heartbeat_at, renew, lease, knows)
values (:owner, :name, utc_timestamp(6), utc_timestamp(6), :renew, :lease, :knows)
on duplicate key update lock_name = values(lock_name), heartbeat_at = values(heartbeat_at),
                        knows = values(knows)
