-- What the end of a row that was held by itself means for its key; of the rows that `lock_keyed` or `note` noted.

-- park: keys of which an event is dead wait for what becomes of that.
-- Guarantee: before the rows are written, in their transaction. Waits for no entry that somebody has locked: its
-- row is left as it is then. Index: primary key, forced by joins.
-- text park
select concat('["', group_concat(distinct s.k order by 1 separator '","'), '"]') into @sendoff_keys
  from {rows}
       left join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where {parks} and k.ordering_key is null;
{list};
select group_concat(s.n) into @sendoff_mine
  from {rows}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where {parks}
   for update /*!80001 of k */ skip locked;
select json_arrayagg(json_array(s.id, s.seq, s.outcome, s.type, s.after_us, s.attempts, s.error, s.due_at,
                                s.k, s.parks, s.n)),
       group_concat(s.n)
  into @sendoff_rows, @sendoff_found
  from {rows}
 where not coalesce({parks}, 0) or find_in_set(s.n, @sendoff_mine);
{parked}

-- park_locked: the same for rows that a transaction has kept locked all along: it waits for their entries, and
-- fails where that takes too long.
-- text park_locked
select concat('["', group_concat(distinct s.k order by 1 separator '","'), '"]') into @sendoff_keys
  from {rows}
 where {parks};
{list};
{parked}

-- wake_keys: the entries of keys that wait are looked at now.
-- Guarantee: after the rows are written, in their transaction. One that somebody has locked is left out, and looked
-- at when it is due. Index: primary key, forced by joins.
-- text wake_keys
select concat('["', group_concat(distinct s.k order by 1 separator '","'), '"]') into @sendoff_keys
  from {rows}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
 where s.parks is null and k.locked_by is null
   for update /*!80001 of k */ skip locked;
update json_table(@sendoff_keys, '$[*]' columns (k varchar(1024) path '$')) s
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.due_at = utc_timestamp(6)

-- part list
insert ignore into sendoff.outbox_key (ordering_key, due_at, since)
select {key}, utc_timestamp(6), utc_timestamp(6)
  from json_table(@sendoff_keys, '$[*]' columns (k varchar(1024) path '$')) s
 order by s.k

-- part parked
update {rows}
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.parked_by = unhex(s.id)
 where {parks}

-- part parks
(s.k is not null and s.parks = 1)

-- part key
convert(unhex(s.k) using utf8mb4)

-- part rows
json_table(@sendoff_rows, '$[*]' columns (
    id       char(32)      path '$[0]',
    seq      bigint        path '$[1]',
    outcome  int           path '$[2]',
    type     varchar(1024) path '$[3]',
    after_us bigint        path '$[4]',
    attempts bigint        path '$[5]',
    error    longtext      path '$[6]',
    due_at   char(26)      path '$[7]',
    k        varchar(1024) path '$[8]',
    parks    int           path '$[9]',
    n        int           path '$[10]')) s
