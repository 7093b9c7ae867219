-- Which rows are visible, and what notes and locks them.

-- claim: lock the visible rows that may run in company, oldest due first, and note them for `hold`.
-- Guarantee: two claims never get the same row, and neither waits for the other; no more rows than have
-- :bytes together, but always the first. Leaves suspects out. Index: outbox_event_due.
--
-- claim_suspects: lock the visible rows that were lost before and are lost again, oldest due first.
-- Guarantee: as `claim`, for exactly the rows that `claim` leaves out. Index: outbox_event_aside.
-- text claim, claim_suspects
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.due_at as char), c.lost)), utc_timestamp(6),
       utc_timestamp(6) + interval :hold microsecond
  into @sendoff_rows, @sendoff_at, @sendoff_until
  from {fitting}

-- claim_except, claim_suspects_except: the same without rows of the :kinds (aggregate type, event type) and
-- of the event :types. A
-- locking read would lock every row that it walks past, so these are two steps: a plain read, and a lock of
-- exactly what it saw, by key, which leaves out what somebody else took meanwhile, or has locked. Index: as `claim` and `claim_suspects`; then primary key.
-- text claim_except, claim_suspects_except
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_ahead from {fitting};
start transaction;
select json_arrayagg(json_array(hex(e.event_id), e.seq, cast(e.due_at as char), {lost})), utc_timestamp(6),
       utc_timestamp(6) + interval :hold microsecond
  into @sendoff_rows, @sendoff_at, @sendoff_until
  from {seen}
   and e.losses + {lost} < 2    -- [claim_except]
   and e.losses + {lost} >= 2   -- [claim_suspects_except]
   for update /*!80001 of e */ skip locked

-- claim_fair: lock visible rows of the tenants that :tenants are of, each a `fair_tenant`, and note them for `hold`.
-- Guarantee: as `claim_except`, in two steps as that; where bytes run out, the first rows of all of them come before
-- the second of any. Index: outbox_event_tenant; then primary key.
-- text claim_fair
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_ahead
  from (select c.*, sum(c.bytes) over (order by c.turn, c.nth rows unbounded preceding) as bytes_so_far
          from (select c.* from (:tenants) c order by c.turn, c.nth limit :limit) c) c
 where c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes;
start transaction;
select json_arrayagg(json_array(hex(e.event_id), e.seq, cast(e.due_at as char), {lost})), utc_timestamp(6),
       utc_timestamp(6) + interval :hold microsecond
  into @sendoff_rows, @sendoff_at, @sendoff_until
  from {seen}
   and e.losses + {lost} < 2
   for update /*!80001 of e */ skip locked

-- fair_tenant: the first :share visible rows of the tenant :tenant, which is the :nth, without rows of the :kinds
-- and :types. Part of `claim_fair`. Index: outbox_event_tenant, forced.
-- text fair_tenant
select t.event_id, t.seq, t.bytes, :nth as nth, row_number() over (order by t.due_at, t.seq) as turn
  from (select e.event_id, e.seq, e.due_at, length(e.payload) + coalesce(length(e.headers), 0) as bytes
          from sendoff.outbox_event e force index (outbox_event_tenant)
         where e.live_tenant = :tenant and e.due_at >= :from and e.due_at <= utc_timestamp(6)
           and {within_bounds}
           and e.losses + {lost} < 2
           and (e.aggregate_type, e.event_type) not in (:kinds)
           and e.event_type not in (:types)
         order by e.due_at, e.seq
         limit :share) t

-- lock_visible: notes the visible rows that nobody has locked, oldest due first; `locked` locks them.
-- Guarantee: nothing stays locked after it, because it is a transaction by itself: where there are fewer
-- rows than :limit, MariaDB locks the entry after the last one as well, which is somebody's hold, and
-- whose holder could neither extend nor settle it for as long as a batch lasts.
-- Index: outbox_event_due.
--
-- lock_visible_except: the same without rows of the :kinds and :types, and with rows that somebody has locked: a plain
-- read, as that of `claim_except`. Index: outbox_event_due.
-- text lock_visible, lock_visible_except
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_rows from {fitting}

-- first_visible: which row a claim or a lock with these bounds would take first.
-- Guarantee: changes nothing, reads no text. :which says which rows: 0 any, 1 those that `claim` takes, 2
-- suspects. Index: outbox_event_due.
-- text first_visible
select e.event_id, e.due_at
  from sendoff.outbox_event e force index (outbox_event_due)
 where e.due_at >= :from and e.due_at <= utc_timestamp(6)
   and {within_bounds}
   and {of_which}
 order by e.due_at, e.seq
 limit 1
   for update skip locked

-- first_visible_except: the same without rows of the :kinds and :types, in two steps, as `claim_except`.
-- Index: outbox_event_due; then primary key.
-- text first_visible_except
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_ahead
  from (select e.event_id, e.seq
          from sendoff.outbox_event e force index (outbox_event_due)
         where e.due_at >= :from and e.due_at <= utc_timestamp(6)
           and {within_bounds}
           and {of_which}
           and (e.aggregate_type, e.event_type) not in (:kinds)
           and e.event_type not in (:types)
         order by e.due_at, e.seq
         limit 1) c;
select e.event_id, e.due_at
  from {seen}
   for update /*!80001 of e */ skip locked

-- part fitting
(select c.*, sum(c.bytes) over (order by c.due_at, c.seq rows unbounded preceding) as bytes_so_far
   from (select e.event_id, e.seq, e.due_at,
                {lost} as lost,                                             -- [claim, claim_suspects]
                length(e.payload) + coalesce(length(e.headers), 0) as bytes
           from sendoff.outbox_event e force index (outbox_event_due)       -- [not claim_suspects, claim_suspects_except]
          where e.due_at >= :from and e.due_at <= utc_timestamp(6)          -- [not claim_suspects, claim_suspects_except]
           from sendoff.outbox_event e force index (outbox_event_aside)     -- [claim_suspects, claim_suspects_except]
          where e.aside = 0                                                 -- [claim_suspects, claim_suspects_except]
            and e.aside_at >= :from and e.aside_at <= utc_timestamp(6)      -- [claim_suspects, claim_suspects_except]
            and {within_bounds}
            and e.losses + {lost} < 2                                       -- [claim, claim_except]
            and e.losses + {lost} >= 2                                      -- [claim_suspects, claim_suspects_except]
            and (e.aggregate_type, e.event_type) not in (:kinds)            -- [claim_except, claim_suspects_except, lock_visible_except]
            and e.event_type not in (:types)                                -- [claim_except, claim_suspects_except, lock_visible_except]
          order by e.due_at, e.seq                                          -- [not claim_suspects, claim_suspects_except]
          order by e.aside_at, e.seq                                        -- [claim_suspects, claim_suspects_except]
          limit :limit                                                      -- [not claim_except, claim_suspects_except, lock_visible_except]
            for update skip locked) c) c                                    -- [not claim_except, claim_suspects_except, lock_visible_except]
          limit :limit) c) c                                                -- [claim_except, claim_suspects_except, lock_visible_except]
where c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes

-- part within_bounds
(e.created_at <= utc_timestamp(6) - interval :skip_recent microsecond
     or e.created_at > utc_timestamp(6))
and e.created_at >= :since
and e.event_id not in (:passed)

-- part of_which
case :which
    when 1 then e.losses + {lost} < 2
    when 2 then e.losses + {lost} >= 2
    else true end

-- What a plain read saw and is visible still.
-- part seen
json_table(@sendoff_ahead, '$[*]' columns (
    id  char(32) path '$[0]',
    seq bigint   path '$[1]')) s
straight_join sendoff.outbox_event e force index (primary)
    on e.event_id = unhex(s.id) and e.seq = s.seq
where e.status in (0, 2) and e.due_at <= utc_timestamp(6)

-- Whether somebody else had it.
-- part lost
coalesce(e.locked_by <> :owner, 0)
