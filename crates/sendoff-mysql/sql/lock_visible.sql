-- lock_visible: notes the visible rows that nobody has locked, oldest due first; `locked` locks them.
-- Guarantee: nothing stays locked behind it, because it is a transaction by itself: where there are fewer
-- rows than :limit, MariaDB locks the entry behind the last one as well, which is somebody's hold, and
-- whose holder could neither extend nor settle it for as long as a batch lasts.
-- Index: outbox_event_due.
select json_arrayagg(json_array(hex(c.event_id), c.seq)), count(*)
  into @sendoff_rows, @sendoff_seen
  from (select c.event_id, c.seq, c.bytes,
               sum(c.bytes) over (order by c.due_at, c.seq rows unbounded preceding) as bytes_so_far
          from (select e.event_id, e.seq, e.due_at,
                       length(e.payload) + coalesce(length(e.headers), 0) as bytes
                  from sendoff.outbox_event e force index (outbox_event_due)
                 where e.due_at >= :from and e.due_at <= utc_timestamp(6)
                   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
                        or e.created_at > utc_timestamp(6))
                   and e.created_at >= :since
                   and e.event_id not in (:passed)
                 order by e.due_at, e.seq
                 limit :limit
                   for update skip locked) c) c
 where c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes
