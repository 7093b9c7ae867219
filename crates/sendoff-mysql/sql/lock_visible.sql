-- lock_visible: the visible rows, locked until the end of the transaction, oldest due first; `locked`
-- reads them.
-- Guarantee: two transactions never get the same row, and nothing is written; a holder who vanished
-- is told of. Rows beyond :bytes stay locked and are not told of, until the transaction ends. The table
-- of counters, which the settlement will write, is asked for first, so that nothing is delivered that
-- could not be settled because somebody keeps writers out of it; reading rows for update asks for theirs.
-- Index: outbox_event_due.
start transaction;
select 1 from sendoff.outbox_tally_delta where false for update;
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.due_at as char), c.lost)), utc_timestamp(6)
  into @sendoff_rows, @sendoff_at
  from (select c.event_id, c.seq, c.due_at, c.lost, c.bytes,
               sum(c.bytes) over (order by c.due_at, c.seq rows unbounded preceding) as bytes_so_far
          from (select e.event_id, e.seq, e.due_at, e.locked_by is not null as lost,
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
