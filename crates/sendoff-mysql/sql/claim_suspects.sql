-- claim_suspects: lock the visible rows that were lost before and are lost again, oldest due first.
-- Guarantee: as `claim`, for exactly the rows that `claim` leaves out. Index: outbox_event_aside.
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.due_at as char), c.lost)), utc_timestamp(6),
       utc_timestamp(6) + interval :hold microsecond
  into @sendoff_rows, @sendoff_at, @sendoff_until
  from (select c.event_id, c.seq, c.due_at, c.lost, c.bytes,
               sum(c.bytes) over (order by c.due_at, c.seq rows unbounded preceding) as bytes_so_far
          from (select e.event_id, e.seq, e.due_at, coalesce(e.locked_by <> :owner, 0) as lost,
                       length(e.payload) + coalesce(length(e.headers), 0) as bytes
                  from sendoff.outbox_event e force index (outbox_event_aside)
                 where e.aside = 0
                   and e.aside_at >= :from and e.aside_at <= utc_timestamp(6)
                   and (e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
                        or e.created_at > utc_timestamp(6))
                   and e.created_at >= :since
                   and e.event_id not in (:passed)
                   and e.losses + coalesce(e.locked_by <> :owner, 0) >= 2
                 order by e.aside_at, e.seq
                 limit :limit
                   for update skip locked) c) c
 where c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes
