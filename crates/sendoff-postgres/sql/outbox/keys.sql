-- Keys that are held, and their events. An entry is proved by its token and its holder ($1); it is compared by
-- itself, in a way that no other index serves.

-- take_keys: hold keys with something to deliver. See the function, whose parameters these are.
-- Guarantee: that a holder vanished is on the disk when it is answered, as in `claim`.
-- Index: see the function.
-- text take_keys
select o_key, o_at, o_run, o_lost, o_next, o_put_off, o_last, o_rows, o_listed, o_end,
       case when (o_lost or $5::boolean) and current_setting('synchronous_commit') = 'off'
            then set_config('synchronous_commit', 'local', true) end as commits
  from sendoff.outbox_take_keys($1::text, $2::bigint, $3::smallint, $4::interval, $5::boolean, $6::text[],
                                $7::text[], $8::text[], $9::bigint, $10::bigint)

-- runs: the events of the keys $1, each from the first one that is owed a delivery on, $2 at most, up to the
-- first that is not in line; key by key, in order. The last columns say of which key it is, and whether it is an
-- event of the run; of what the key has beyond that one row is answered, without what it carries.
-- Guarantee: locks nothing, and is a statement of its own, after the keys were taken: whatever was settled before
-- is seen, also that an event is dead since, and parks its key. Of such a key nothing is answered. Returns no more bytes than $3, but always one event; the length of a payload is known without
-- reading it. Index: outbox_event_key.
-- text runs
select event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, content_type,
       occurred_at, case when fits then headers end, case when fits then payload end,
       attempts, due_at, created_at, seq, due_at as was_due, false as lost, now() as claimed_at,
       unavailable_since, unroutable_since, no, fits
  from (select *, in_run and (sum(size) filter (where in_run) over reading <= $3::bigint
                              or count(*) filter (where in_run) over reading = 1) as fits
          from (select k.no, e.*, octet_length(e.payload)
                         + case when e.headers is null then 0
                                when pg_column_size(e.headers) <= 200 then pg_column_size(e.headers)
                                else octet_length(e.headers::text) end as size,
                       row_number() over line <= k.most
                       and bool_and(e.due_at between '9998-01-01 00:00:00Z' and '9999-01-01 00:00:00Z')
                           over line as in_run
                  from unnest($1::text[], $2::bigint[]) with ordinality as k(key, most, no)
                 cross join lateral (
                       select *
                         from sendoff.outbox_event
                        where ordering_key collate "C" = k.key and ordering_key is not null
                          and status in (0, 2)
                        order by seq
                        limit k.most + 1) e
                 where (select p.parked_by from sendoff.outbox_key p
                         where p.ordering_key = any (array[k.key])) is null
                window line as (partition by k.no order by e.seq rows unbounded preceding)) found
        window reading as (order by no, seq rows unbounded preceding)) answer
 order by no, seq

-- extend_keys: holds that last longer: of the keys $2, by their tokens $3, for $4. Answers which, by their place;
-- what is busy, without a yes.
-- Guarantee: tokens stay. Waits for no entry (I11). Index: primary key of the keys.
-- text extend_keys
with batch as materialized (
    select * from unnest($2::text[], $3::timestamptz[]) with ordinality as s(key, token, no)
), mine as materialized (
    select s.no, k.ordering_key
      from {held}
     order by s.key collate "C"
       for no key update of k skip locked
), extended as (
    update sendoff.outbox_key k
       set due_at = now() + $4::interval
      from mine m
     where k.ordering_key = any (array[m.ordering_key])
    returning m.no
)
select no, true from extended
union all
select s.no, false
  from {held}
   and {missed}

-- shelve: takes rows in line out of the way of walks, above the number $1 up to $2, that are older than $3 and
-- whose key is parked, or has not moved for as long; $4 at most.
-- Guarantee: a row that is shelved has a key that is listed, and says so: the entry is locked before. Waits for
-- nothing. Index: outbox_event_due; then primary keys.
-- text shelve
with old as materialized (
    select e.event_id, e.created_at, e.ordering_key collate "C" as ordering_key
      from sendoff.outbox_event e
     where e.status in (0, 2) and e.due_at = '9998-01-01 00:00:00Z'
       and e.seq > $1::bigint and e.seq <= $2::bigint
       and e.created_at < now() - $3::interval
       and exists (select from sendoff.outbox_key k
                    where k.ordering_key = any (array[e.ordering_key]) and {stands})
     order by e.due_at, e.seq
     limit $4::bigint
       for no key update of e skip locked
), entry as materialized (
    select k.ordering_key
      from (select distinct ordering_key from old) o
      join sendoff.outbox_key k on k.ordering_key = any (array[o.ordering_key])
     where {stands}
     order by o.ordering_key
       for no key update of k skip locked
), marked as (
    update sendoff.outbox_key k
       set shelved = true
      from entry
     where k.ordering_key = any (array[entry.ordering_key]) and not k.shelved
), shelved as (
    update sendoff.outbox_event e
       set due_at = '9999-01-01 00:00:00Z'
      from old o
     where (o.ordering_key in (select ordering_key from entry)) is true
       and e.event_id = any (array[o.event_id]) and e.created_at = o.created_at
    returning e.event_id
)
select count(*) from shelved

-- part held
batch s
join sendoff.outbox_key k on k.ordering_key = any (array[s.key])
where (k.taken_at = s.token and k.locked_by = $1::text) is true

-- part missed
(select count(*) from mine) < cardinality($2::text[])
and s.no not in (select no from mine)

-- part stands
(k.parked_by is not null or k.since < now() - $3::interval)
