-- join: adds a node, or has it back; forgets those that are long dead, unless somebody has locked
-- them.
-- Index: primary key; the table has a row for each node.
with forgotten as (
    delete from sendoff.journal_node
     where owner in (select d.owner from sendoff.journal_node d
                      where d.heartbeat_at + d.lease + interval '1 hour' < clock_timestamp()
                        and d.owner <> $1::text
                        for update skip locked)
)
insert into sendoff.journal_node as n (owner, lock_key, renew, lease, knows)
values ($1::text, $2::integer, $3::interval, $4::interval, $5::bigint[])
on conflict (owner) do update
   set lock_key = excluded.lock_key, heartbeat_at = clock_timestamp(), knows = excluded.knows
