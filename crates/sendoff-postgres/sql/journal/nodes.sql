-- nodes: the nodes that are alive, and those that have been silent for longer than their lease
-- although their session is there; the oldest first. How long after it came each was heard of last, and how
-- long ago, in microseconds.
-- Index: primary key; the table has a row for each node.
select n.owner, n.knows, sendoff.journal_alive(n.owner),
       (extract(epoch from n.heartbeat_at - n.started_at) * 1000000)::bigint,
       (extract(epoch from clock_timestamp() - n.heartbeat_at) * 1000000)::bigint
  from sendoff.journal_node n
 where sendoff.journal_alive(n.owner)
    or exists (
        select from pg_catalog.pg_locks l
         where l.locktype = 'advisory' and l.granted and l.objsubid = 2
           and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
           and l.classid = 'sendoff.journal_node'::regclass::oid
           and l.objid = n.lock_key::oid)
 order by n.started_at, n.owner
