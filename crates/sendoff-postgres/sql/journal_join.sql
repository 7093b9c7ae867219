-- journal_join: adds a node, or has it back; forgets those that are long dead.
-- Index: primary key; the table has a row for each node.
with forgotten as (
    delete from sendoff.journal_node
     where heartbeat_at + lease + interval '1 hour' < clock_timestamp() and owner <> $1::text
)
insert into sendoff.journal_node as n (owner, lock_key, renew, lease, knows)
values ($1::text, $2::integer, $3::interval, $4::interval, $5::bigint[])
on conflict (owner) do update
   set lock_key = excluded.lock_key, heartbeat_at = clock_timestamp(), knows = excluded.knows
