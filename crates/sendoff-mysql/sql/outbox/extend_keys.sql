-- extend_keys: holds of keys that last longer, of those that are held by the tokens given. Their tokens stay.
-- Guarantee: an entry that somebody else has locked is left out, and not waited for; a stale token finds nothing.
-- Answers which were found, by their places in the list, from 1; NULL for none. Index: primary key, forced by a join.
-- text extend_keys
start transaction;
select group_concat(s.n), json_arrayagg(s.k), utc_timestamp(6)
  into @sendoff_found, @sendoff_keys, @sendoff_at
  from {list}
 where {mine}
   for update /*!80001 of k */ skip locked;
update json_table(@sendoff_keys, '$[*]' columns (k varchar(1024) path '$')) s
       straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}
   set k.due_at = cast(@sendoff_at as datetime(6)) + interval :hold microsecond;
commit;
select @sendoff_found

-- held_keys: which keys are held by the tokens given, by their places. A plain read, which waits for nobody.
-- Index: primary key, forced by a join.
-- text held_keys
select group_concat(s.n)
  from {list}
 where {mine}

-- part list
json_table(:keys, '$[*]' columns (
    n     for ordinality,
    k     varchar(1024) path '$.k',
    token char(26)      path '$.t')) s
straight_join sendoff.outbox_key k force index (primary) on k.ordering_key = {key}

-- part mine
k.taken_at = cast(s.token as datetime(6)) and k.locked_by = :owner

-- part key
convert(unhex(s.k) using utf8mb4)
