-- Reading what is to come of keys, in order.
--
-- Neither server can be asked for the first rows of each of many keys in one way that serves all: a join reads all
-- of a key, and MariaDB has no LATERAL. So it is first noted where each key is to be cut, by one step over the
-- index for each; keys that are shorter are joined, and of those that are longer a range is read.

-- runs: the events of keys that are held, from the first live one on.
-- Guarantee: a plain read, in a snapshot later than the holds; locks nothing. None of a key that an event parks
-- which is dead since, as of the moment in which its rows are seen. Up to the first that is not in line,
-- and no more rows of a key than it may run, nor than have :bytes together, but always the first. Answers the
-- places of keys of which there is more, then the rows, each with the place of its key; what was read is durable
-- when that is answered (`durable.rs`). Index: outbox_event_key; then primary key, forced by a join.
-- text runs
select json_arrayagg(json_array(s.k, s.most, (select e.seq
                                                from sendoff.outbox_event e force index (outbox_event_key)
                                               where e.live_key = {key}
                                               order by e.seq
                                               limit 1 offset :longest), s.n))
  into @sendoff_keys
  from json_table(:keys, '$[*]' columns (
           n    for ordinality,
           k    varchar(1024) path '$.k',
           most bigint        path '$.r')) s;
select concat('[', group_concat(case when {fits} then json_array(c.n, hex(c.event_id), c.seq) end), ']'),
       group_concat(distinct case when not ({fits}) then c.n end)
  into @sendoff_rows, @sendoff_found
  from (select c.*, sum(if(c.cuts = 0, c.bytes, 0)) over (order by c.n, c.seq rows unbounded preceding)
                    as bytes_so_far
          from (select c.n, e.event_id, e.seq, length(e.payload) + coalesce(length(e.headers), 0) as bytes,
                       sum(c.nth > c.most or e.due_at < date'9998-01-01')
                           over (partition by c.n order by c.seq rows unbounded preceding) as cuts
                  from (select c.*, row_number() over (partition by c.n order by c.seq) as nth
                          from (select s.n, s.k, s.most, e.seq from {shorter} and k.parked_by is null
                                union all
                                select s.n, s.k, s.most, e.seq from {longer} and k.parked_by is null) c) c
                       straight_join sendoff.outbox_event e force index (outbox_event_key)
                           on e.live_key = convert(unhex(c.k) using utf8mb4) and e.seq = c.seq
                 where c.nth <= c.most + 1) c) c;
select @sendoff_found;
select e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.ordering_key,
       e.content_type, e.occurred_at, e.headers, e.payload,
       e.attempts, e.due_at, e.created_at, e.due_at, 0, utc_timestamp(6), e.seq,
       e.unavailable_since, e.unroutable_since, s.n
  from json_table(@sendoff_rows, '$[*]' columns (
           n   int      path '$[0]',
           id  char(32) path '$[1]',
           seq bigint   path '$[2]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where e.status in (0, 2) and e.due_at >= date'9998-01-01'

-- confirm_keys: which rows are there, pending and held, by which token, and what of their keys lies before them.
-- Guarantee: sees committed rows only, all of them as of one moment: what is settled between two looks would
-- make the first :longest rows of a key fewer, and hide those after them. Reads no payload. Of a key the first :longest
-- rows, which is enough for each. Answers rows (key, id, number), then those that are held.
-- Index: primary key; outbox_event_key.
-- text confirm_keys
set transaction isolation level repeatable read;
start transaction with consistent snapshot, read only;
select json_arrayagg(json_array(s.k, s.top, (select e.seq
                                               from sendoff.outbox_event e force index (outbox_event_key)
                                              where e.live_key = {key}
                                              order by e.seq
                                              limit 1 offset :longest)))
  into @sendoff_keys
  from (select hex(e.ordering_key) as k, max(e.seq) as top
          from sendoff.outbox_event e force index (primary)
         where e.event_id in (:ids) and e.ordering_key is not null
           and e.status in (0, 2) and e.locked_by is not null
         group by e.ordering_key) s;
select e.ordering_key, e.event_id, e.seq
  from (select s.k, e.seq from {shorter} and e.seq < s.most
        union all
        select s.k, e.seq from {longer} and e.seq < s.most) c
       straight_join sendoff.outbox_event e force index (outbox_event_key)
           on e.live_key = convert(unhex(c.k) using utf8mb4) and e.seq = c.seq;
select e.event_id, e.due_at, e.seq, e.ordering_key, k.parked_by is not null
  from sendoff.outbox_event e force index (primary)
       left join sendoff.outbox_key k force index (primary) on k.ordering_key = e.ordering_key
 where e.event_id in (:ids)
   and e.status in (0, 2) and e.locked_by is not null;
commit

-- All rows of keys that end before where they would be cut. `k` is what is kept of the key.
-- part shorter
{cut} straight_join sendoff.outbox_event e force index (outbox_event_key) on e.live_key = {key}
where s.cut is null

-- The rows of the others up to there: as a range, which both servers make for each key anew; by an equality they
-- would read all that the key has.
-- part longer
{cut} straight_join sendoff.outbox_event e force index (outbox_event_key)
    on e.live_key >= {key} and e.live_key <= {key} and e.seq < s.cut
where s.cut is not null

-- part cut
json_table(@sendoff_keys, '$[*]' columns (
    k    varchar(1024) path '$[0]',
    most bigint        path '$[1]',
    cut  bigint        path '$[2]',
    n    int           path '$[3]')) s
left join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}

-- part key
convert(unhex(s.k) using utf8mb4)

-- part fits
c.cuts = 0 and (c.bytes_so_far <= :bytes or c.bytes_so_far = c.bytes)
