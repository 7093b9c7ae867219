-- What became of events whose keys are held, and of the keys. One transaction.

-- lock_runs: the keys among these that are held by the tokens given, and their rows in line; noted for the
-- statements that follow in the same text. :entry is `lock_entry` and :too its table, or both are nothing.
-- Guarantee: entries are proved and locked before their rows. What somebody else has locked is not waited for: an
-- entry is left out, and so is the whole key of a row (`@sendoff_busy`). A row that is in line no more is passed
-- over. Index: primary keys, forced by joins.
-- text lock_runs
set @sendoff_ends = :rows;
start transaction;
select json_arrayagg(json_array(c.n, c.k, c.ending, c.after_us, c.ended)), utc_timestamp(6),
       group_concat(concat(repeat('0', c.n - c.last_n - 1), '1') order by c.n separator '')
  into @sendoff_keys, @sendoff_at, @sendoff_mine
  from (select c.*, coalesce(lag(c.n) over (order by c.n), 0) as last_n
          from (select s.n, s.k, s.ending, s.after_us, s.ended
                  from json_table(:keys, '$[*]' columns (
                           n        for ordinality,
                           k        varchar(1024) path '$.k',
                           token    char(26)      path '$.t',
                           ending   int           path '$.w',
                           after_us bigint        path '$.d',
                           ended    int           path '$.s')) s
                       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
                 where k.taken_at = cast(s.token as datetime(6)) and k.locked_by = :owner
                   for update /*!80001 of k */ skip locked) c) c;
select json_arrayagg(json_array(s.id, e.seq, s.outcome, hex(e.event_type), s.after_us, s.attempts,
                                s.error, null, s.parks, s.k)),
       group_concat(s.n), count(distinct s.n)
  into @sendoff_rows, @sendoff_found, @sendoff_count
  from {ends}
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
       :entry
 where {in_line} and substr(@sendoff_mine, s.k, 1) = '1'
   for update /*!80001 of e:too */ skip locked;
select group_concat(distinct s.k) into @sendoff_busy
  from json_table(if(@sendoff_count = :count, '[]', @sendoff_ends), '$[*]' columns (
           n  for ordinality,
           id char(32) path '$.i',
           k  int      path '$.k')) s
       straight_join sendoff.outbox_event e force index (primary) on e.event_id = unhex(s.id)
 where {in_line} and substr(@sendoff_mine, s.k, 1) = '1' and coalesce(find_in_set(s.n, @sendoff_found), 0) = 0

-- park_runs: keys of which an event is dead wait for what becomes of that. Before `end_runs`.
-- Index: primary key, forced by a join.
-- text park_runs
update json_table(@sendoff_rows, '$[*]' columns (
           id    char(32)      path '$[0]',
           parks varchar(1024) path '$[8]',
           n     int           path '$[9]')) s
       straight_join sendoff.outbox_key k force index (primary)
           on k.ordering_key = convert(unhex(s.parks) using utf8mb4)
   set k.parked_by = unhex(s.id)
 where {not_busy}

-- end_runs: what becomes of the keys: 0 held on, 1 free, 2 free after a time, 3 nothing more was seen of it: taken off
-- the list, unless rows were shelved, or it is parked. Losses are forgotten where an event is over.
-- Index: primary key, forced by a join.
-- text end_runs
delete k
  from {keys}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where s.ending = 3 and k.shelved = 0 and k.parked_by is null and {not_busy};
update {keys}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.losses = if(s.ended = 1, 0, k.losses),
       k.due_at = if(s.ending = 0, k.due_at, cast(@sendoff_at as datetime(6)) + interval s.after_us microsecond),
       k.since = if(s.ending = 0, k.since, cast(@sendoff_at as datetime(6))),
       k.locked_by = if(s.ending = 0, k.locked_by, null)
 where {not_busy}

-- ended_runs: which keys were found, as a text with a 1 at each place, and which of these have a row that somebody
-- else has locked; NULL for none. Reads no table.
-- text ended_runs
select @sendoff_mine, @sendoff_busy

-- part ends
json_table(@sendoff_ends, '$[*]' columns (
    n        for ordinality,
    id       char(32)      path '$.i',
    outcome  int           path '$.o',
    after_us bigint        path '$.d',
    attempts bigint        path '$.a',
    error    longtext      path '$.e',
    parks    varchar(1024) path '$.p',
    k        int           path '$.k')) s

-- part keys
json_table(@sendoff_keys, '$[*]' columns (
    n        int           path '$[0]',
    k        varchar(1024) path '$[1]',
    ending   int           path '$[2]',
    after_us bigint        path '$[3]',
    ended    int           path '$[4]')) s

-- part key
convert(unhex(s.k) using utf8mb4)

-- part in_line
e.status in (0, 2) and e.due_at >= date'9998-01-01'

-- part not_busy
coalesce(find_in_set(s.n, @sendoff_busy), 0) = 0
