-- nodes: the nodes that are alive, the oldest first, by this server's clock; and those that have
-- been silent for longer than their lease although their session is there. How long after it came each was
-- heard of last, and how long ago, in microseconds.
-- Guarantee: a session that is gone does not prove a node's death (a restart of the server ends all of
-- them at once), but with two renewals missed it is enough; without that the whole lease has to run
-- out. Index: primary key; the table has a row for each node.
select n.owner, n.knows, n.heartbeat_at + interval n.lease microsecond > utc_timestamp(6),
       timestampdiff(microsecond, n.started_at, n.heartbeat_at),
       timestampdiff(microsecond, n.heartbeat_at, utc_timestamp(6))
  from sendoff.journal_node n
 where (n.lock_name is not null and is_free_lock(n.lock_name) = 0)
    or (n.heartbeat_at + interval n.lease microsecond > utc_timestamp(6)
        and (n.lock_name is null
             or n.heartbeat_at + interval 2 * n.renew microsecond > utc_timestamp(6)))
 order by n.started_at, n.owner
