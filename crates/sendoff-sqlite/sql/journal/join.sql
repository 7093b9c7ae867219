-- join: adds a node, or has it back. Index: primary key.
insert into journal_node (owner, started_at, heartbeat_at, lease, knows)
values (?1, ?2, ?2, ?3, ?4)
on conflict (owner) do update set heartbeat_at = excluded.heartbeat_at, knows = excluded.knows
