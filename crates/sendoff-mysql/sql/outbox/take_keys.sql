-- Holding keys: those that are due, then what a walk over the rows in line finds. One transaction.

-- take_keys: lock the entries that are due, look at the first live row of each, and do what follows.
-- Guarantee: waits for no entry and no row that somebody has locked. Rows are looked at after the entries are
-- locked, by a plain read, so that whatever was settled under an earlier hold is seen; what follows is what
-- `order::look` says. A holder who vanished with a single event is counted on its row in the same transaction,
-- and where somebody has that locked, its key is looked at again soon. One that is left out stays due for others,
-- behind all that are due where there may be more of them. Leaves suspects out.
-- Index: outbox_key_flows; outbox_event_key; primary keys, forced by joins.
--
-- take_suspect_keys: the same for exactly those entries that `take_keys` leaves out. Index: outbox_key_suspect.
-- text take_keys, take_suspect_keys
start transaction;
select json_arrayagg(json_array(hex(c.ordering_key), cast(c.since as char), cast(c.taken_at as char), c.careful,
                                c.losses, c.lost_one)),
       utc_timestamp(6)
  into @sendoff_keys, @sendoff_at
  from (select k.ordering_key, k.since, k.taken_at, k.losses,
               case when {lost} and k.run > 1 then k.run else k.careful end as careful,
               {lost_one} as lost_one
          from sendoff.outbox_key k force index (outbox_key_flows)    -- [take_keys]
         where k.flows_at <= utc_timestamp(6)                         -- [take_keys]
           and k.losses + ({lost_one}) < 2                            -- [take_keys]
         order by k.flows_at                                          -- [take_keys]
          from sendoff.outbox_key k force index (outbox_key_suspect)  -- [take_suspect_keys]
         where k.suspect_at <= utc_timestamp(6)                       -- [take_suspect_keys]
           and k.losses + ({lost_one}) >= 2                           -- [take_suspect_keys]
         order by k.suspect_at                                        -- [take_suspect_keys]
         limit :limit
           for update skip locked) c;
select json_arrayagg(json_array(l.k, l.act, cast(l.later as char), l.alone, l.careful, l.losses, l.lost_one,
                                hex(l.event_id), l.seq, cast(l.taken_at as char)))
  into @sendoff_looks
  from (select s.k, s.careful, s.losses, s.lost_one, e.event_id, e.seq,
               s.careful > 0 or s.losses + s.lost_one > 0 as alone,
               greatest(cast(@sendoff_at as datetime(6)),
                        coalesce(cast(s.taken_at as datetime(6)) + interval 1 microsecond,
                                 cast(@sendoff_at as datetime(6)))) as taken_at,
               case when e.seq is null then 2
                    when {in_line} and not {left_out} then 0
                    when {in_line} then 3
                    else 1 end as act,
               case when {in_line} or e.seq is null or e.due_at <= cast(@sendoff_at as datetime(6))
                    then {waits}
                    when e.locked_by is not null then least(e.due_at, {waits})
                    else e.due_at end as later
          from json_table(@sendoff_keys, '$[*]' columns (
                   k        varchar(1024) path '$[0]',
                   since    char(26)      path '$[1]',
                   taken_at char(26)      path '$[2]',
                   careful  bigint        path '$[3]',
                   losses   bigint        path '$[4]',
                   lost_one int           path '$[5]')) s
               left join sendoff.outbox_event e force index (outbox_event_key)
                   on e.live_key = {key}
                  and e.seq = (select h.seq
                                 from sendoff.outbox_event h force index (outbox_event_key)
                                where h.live_key = {key}
                                order by h.seq
                                limit 1)) l;
select group_concat(s.n) into @sendoff_blamed
  from {looks}
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where s.act = 0 and s.lost_one = 1 and e.status in (0, 2)
   for update /*!80001 of e */ skip locked;
update {looks}
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
   set e.attempts = least(e.attempts, 4294967294) + 1, e.losses = least(e.losses, 65534) + 1
 where s.lost_one = 1 and find_in_set(s.n, @sendoff_blamed);
update {looks}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.due_at = case when {held} then cast(@sendoff_at as datetime(6)) + interval :hold microsecond
                       when s.act = 3 then cast(@sendoff_at as datetime(6))
                       else cast(s.later as datetime(6)) end,
       k.since = if({held}, cast(@sendoff_at as datetime(6)), k.since),
       k.taken_at = if({held}, cast(s.taken_at as datetime(6)), k.taken_at),
       k.run = case when {held} then if(s.alone, 1, :run) when s.act = 1 then 0 else k.run end,
       k.careful = case when {held} then greatest(s.careful, 1) - 1
                        when s.act = 1 then s.careful else k.careful end,
       k.losses = if({held}, least(s.losses + s.lost_one, 65535), k.losses),
       k.locked_by = case when {held} then :owner when s.act = 1 then null else k.locked_by end
 where s.act < 2 or s.act = 3 and json_length(@sendoff_keys) >= :limit;
delete k
  from {looks}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where s.act = 2;
select :limit - coalesce(sum({held}), 0), coalesce(sum(s.act <> 2 and not {held}), 0),
       min(case when s.act < 2 and not {held} then s.later end), null, null, 0, 0, 1
  into @sendoff_room, @sendoff_put_off, @sendoff_next,
       @sendoff_fresh, @sendoff_last, @sendoff_walked, @sendoff_listed, @sendoff_end
  from {looks}

-- walk_keys: list and hold the keys of rows in line above a number that have no entry, as many as there is
-- room for; none whose first row among these is left out.
-- Guarantee: rows are neither locked nor written. Two walks never list the same key; one may wait for
-- another's text, in the order of keys. Index: outbox_event_due; primary key.
-- text walk_keys
select concat('["', group_concat(case when {seen} and w.fresh then hex(w.ordering_key) end separator '","'), '"]'),
       max(case when {seen} then w.seq end), coalesce(sum({seen}), 0), coalesce(sum({seen} and w.listed), 0),
       coalesce(sum(not ({seen})), 0) = 0
  into @sendoff_fresh, @sendoff_last, @sendoff_walked, @sendoff_listed, @sendoff_end
  from (select w.*, row_number() over (order by w.seq) as nth,
               sum(w.fresh) over (order by w.seq rows unbounded preceding) - w.fresh as fresh_before
          from (select e.seq, e.ordering_key, k.ordering_key is not null as listed,
                       k.ordering_key is null and e.ordering_key is not null and not e.left_out
                       and row_number() over (partition by e.ordering_key order by e.seq) = 1 as fresh
                  from (select e.seq, e.ordering_key, {left_out} as left_out
                          from sendoff.outbox_event e force index (outbox_event_due)
                         where e.due_at = date'9998-01-01'
                           and e.seq > if(@sendoff_room > 0, :after, 9223372036854775807)
                         order by e.seq
                         limit :more) e
                       left join sendoff.outbox_key k force index (primary)
                           on k.ordering_key = e.ordering_key) w) w;
insert ignore into sendoff.outbox_key (ordering_key, due_at, since, taken_at, locked_by, run)
select {key}, cast(@sendoff_at as datetime(6)) + interval :hold microsecond, cast(@sendoff_at as datetime(6)),
       cast(@sendoff_at as datetime(6)), :owner, :run
  from json_table(@sendoff_fresh, '$[*]' columns (k varchar(1024) path '$')) s
 order by s.k

-- taken_keys: what was taken, once it is committed, each with whether its first event was lost; then how many
-- entries could not be, when the first of those is due, and how far a walk came.
-- Guarantee: only keys that are held by this very taking. Index: primary key, forced by joins.
-- text taken_keys
select k.ordering_key, k.taken_at, k.run, s.lost_one
  from {looks}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where {held} and k.taken_at = cast(s.taken_at as datetime(6)) and k.locked_by = :owner
union all
select k.ordering_key, k.taken_at, k.run, 0
  from json_table(@sendoff_fresh, '$[*]' columns (k varchar(1024) path '$')) s
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where k.taken_at = cast(@sendoff_at as datetime(6)) and k.locked_by = :owner;
select @sendoff_put_off, timestampdiff(microsecond, @sendoff_at, @sendoff_next), @sendoff_room,
       @sendoff_last, @sendoff_walked, @sendoff_listed, @sendoff_end

-- some_keys: whether an entry may be due, or a row in line above a number.
-- Guarantee: reads only, locks nothing. Index: outbox_key_flows, outbox_event_due.
--
-- some_suspect_keys: whether a suspect may be. Index: outbox_key_suspect.
-- text some_keys, some_suspect_keys
(select 1 from sendoff.outbox_key k force index (outbox_key_flows)      -- [some_keys]
  where k.flows_at <= utc_timestamp(6) limit 1)                         -- [some_keys]
union all                                                               -- [some_keys]
(select 1 from sendoff.outbox_event e force index (outbox_event_due)    -- [some_keys]
  where e.due_at = date'9998-01-01' and e.seq > :after    -- [some_keys]
  limit 1)                                                              -- [some_keys]
select 1 from sendoff.outbox_key k force index (outbox_key_suspect)     -- [some_suspect_keys]
 where k.suspect_at <= utc_timestamp(6) limit 1                         -- [some_suspect_keys]

-- What was seen of each entry, and what follows: 0 held, 1 later, 2 gone, 3 left to others.
-- part looks
json_table(@sendoff_looks, '$[*]' columns (
    n        for ordinality,
    k        varchar(1024) path '$[0]',
    act      int           path '$[1]',
    later    char(26)      path '$[2]',
    alone    int           path '$[3]',
    careful  bigint        path '$[4]',
    losses   bigint        path '$[5]',
    lost_one int           path '$[6]',
    id       char(32)      path '$[7]',
    seq      bigint        path '$[8]',
    taken_at char(26)      path '$[9]')) s

-- Whether it is held from now on: its event, if it was lost, could be written.
-- part held
(s.act = 0 and (s.lost_one = 0 or coalesce(find_in_set(s.n, @sendoff_blamed), 0) > 0))

-- part key
convert(unhex(s.k) using utf8mb4)

-- Half of the time for which it has not moved, from 100 ms to 5 s.
-- part waits
cast(@sendoff_at as datetime(6)) + interval
least(greatest(timestampdiff(microsecond, s.since, @sendoff_at) div 2, 100000), 5000000) microsecond

-- part in_line
(e.due_at >= date'9998-01-01')

-- part left_out
((e.aggregate_type, e.event_type) in (:kinds) or e.event_type in (:types))

-- Which rows a walk goes over: up to the one that fills the room.
-- part seen
(w.nth <= :rows and w.fresh_before < @sendoff_room)

-- Whether somebody else had it last; and with a single event.
-- part lost
coalesce(k.locked_by <> :owner, 0)

-- part lost_one
({lost} and k.run = 1)
