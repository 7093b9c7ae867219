-- journal_join: adds a node, or has it back; forgets those that are long dead.
-- Index: primary key; the table has a row for each node.
delete from sendoff.journal_node
 where heartbeat_at + interval lease microsecond + interval 1 hour < utc_timestamp(6)
   and owner <> :owner;
insert into sendoff.journal_node (owner, lock_name, started_at, heartbeat_at, renew, lease, knows)
values (:owner, :name, utc_timestamp(6), utc_timestamp(6), :renew, :lease, :knows)
on duplicate key update lock_name = values(lock_name), heartbeat_at = values(heartbeat_at),
                        knows = values(knows)
