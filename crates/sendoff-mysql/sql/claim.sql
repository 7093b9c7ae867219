-- claim: lock the visible rows that may run in company, oldest due first, and note them for `hold`.
-- Guarantee: two claims never get the same row, and neither waits for the other; no more rows than have
-- :bytes together, but always the first. Leaves suspects out. Index: outbox_event_due.
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.due_at as char), c.lost)), utc_timestamp(6),
       utc_timestamp(6) + interval :hold microsecond
  into @sendoff_rows, @sendoff_at, @sendoff_until
  from (select c.event_id, c.seq, c.due_at, c.lost, c.bytes,
               sum(c.bytes) over (order by c.due_at, c.seq rows unbounded preceding) as bytes_so_far
          from (select e.event_id, e.seq, e.due_at, coalesce(e.locked_by <> :owner, 0) as lost,
                       length(e.payload) + coalesce(length(e.headers), 0) as bytes
                  from sendoff.outbox_event e force index (outbox_event_due)
                 where e.due_at >= :from and e.due_at <= utc_timestamp(6)
                   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
                        or e.created_at > utc_timestamp(6))
                   and e.created_at >= :since
                   and e.event_id not in (:passed)
                   and e.losses + coalesce(e.locked_by <> :owner, 0) < 2
                 order by e.due_at, e.seq
                 limit :limit
                   for update skip locked) c) c
 where c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes
