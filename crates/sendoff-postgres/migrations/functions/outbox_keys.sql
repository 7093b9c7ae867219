-- outbox_take_keys: hold keys with something to deliver, for `p_hold`: those that are listed and due first, and
-- if fewer than `p_most` can be had, those of rows in line above `p_after`, of which `p_rows` are walked over
-- (none where it is null).
-- Guarantee: two callers never get the same key. Nobody waits for an entry that somebody has locked. What an
-- entry stands for is looked at in a snapshot that is younger than its lock: whatever was settled under an
-- earlier hold is seen. Neither are rows in line locked nor are they written, but for the count of a first one
-- that was lost alone. No key whose first event is of the kinds `p_aggregates`, `p_kinds` or of the types
-- `p_types` is taken: it stays due for others, behind all that are due where there may be more of them. A walk waits for nothing but another one that is listing the same key, and keys are
-- listed in their order. Plans are made once, along the indexes, whatever the session's settings are.
-- Answers a row for each key that was taken; one with how many were put off, until when at least, and whether a
-- holder had vanished; and one for the walk: how far it came, over how many rows, how many were of keys that
-- were listed, and whether there are no more.
-- Index: outbox_key_due; outbox_event_key; outbox_event_due; primary keys.
create or replace function sendoff.outbox_take_keys(
    p_me text, p_most bigint, p_run smallint, p_hold interval, p_suspects boolean,
    p_aggregates text[], p_kinds text[], p_types text[], p_after bigint, p_rows bigint
) returns table (
    o_key text, o_at timestamptz, o_run smallint, o_lost boolean, o_next timestamptz, o_put_off bigint,
    o_last bigint, o_rows bigint, o_listed bigint, o_end boolean
)
language plpgsql volatile rows 100
-- include planned
as $body$
declare
    found_keys text[];
    answers    bigint;
    room       bigint := p_most;
begin
    select array_agg(due.ordering_key)
      into found_keys
      from (select k.ordering_key
              from sendoff.outbox_key k
             where k.parked_by is null and k.due_at <= now()
               and (k.losses + case when k.locked_by <> p_me and k.run = 1 then 1 else 0 end >= 2)
                   = p_suspects
             order by k.due_at
             limit p_most
               for update skip locked) due;
    if found_keys is not null then
        return query
        with entry as materialized (
            select k.ordering_key, k.losses, coalesce(k.locked_by <> p_me, false) as lost,
                   coalesce(k.locked_by <> p_me, false) and k.run = 1 as lost_one,
                   case when k.locked_by <> p_me and k.run > 1 then k.run else k.careful end as careful,
                   now() + least(greatest((now() - k.since) / 2, interval '100 ms'), interval '5 s')
                       as later,
                   e.event_id, e.created_at, e.due_at, e.locked_by,
                   e.due_at between '9998-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' as in_line,
                   e.event_type = any (p_types)
                       or (e.aggregate_type, e.event_type)
                          in (select * from unnest(p_aggregates, p_kinds)) as left_out
              from unnest(found_keys) as u(key)
              join sendoff.outbox_key k on k.ordering_key = any (array[u.key])
              left join lateral (
                   select r.event_id, r.created_at, r.due_at, r.locked_by, r.aggregate_type, r.event_type
                     from sendoff.outbox_event r
                    where r.ordering_key collate "C" = u.key and r.ordering_key is not null
                      and r.status in (0, 2)
                    order by r.seq
                    limit 1) e on true
        ), blamed as materialized (
            -- One that somebody has locked is not counted, and its key is put off.
            select r.event_id
              from entry l
              join sendoff.outbox_event r
                on r.event_id = any (array[l.event_id]) and r.created_at = l.created_at
             where l.lost_one and l.in_line and not l.left_out
               for no key update of r skip locked
        ), look as materialized (
            select l.*,
                   l.in_line and not l.left_out
                   and (not l.lost_one or l.event_id in (select event_id from blamed)) as taken
              from entry l
        ), counted as (
            update sendoff.outbox_event r
               set attempts = least(r.attempts::bigint + 1, 2147483647), losses = least(r.losses, 32766) + 1
              from look l
             where l.taken and l.lost_one
               and r.event_id = any (array[l.event_id]) and r.created_at = l.created_at
        ), held as (
            update sendoff.outbox_key k
               set due_at = now() + p_hold, since = now(), locked_by = p_me,
                   taken_at = greatest(now(), k.taken_at + interval '1 microsecond'),
                   run = case when l.careful > 0 or l.losses > 0 or l.lost_one then 1
                              else greatest(p_run, 1) end,
                   careful = greatest(l.careful - 1, 0),
                   losses = least(l.losses, 32766) + case when l.lost_one then 1 else 0 end
              from look l
             where l.taken and k.ordering_key = any (array[l.ordering_key])
            returning k.ordering_key, k.taken_at, k.run, l.lost_one, l.lost
        ), put_off as (
            update sendoff.outbox_key k
               set locked_by = null, run = 0, careful = l.careful,
                   due_at = case when l.in_line or l.due_at <= now() then l.later
                                 when l.locked_by is not null then least(l.due_at, l.later)
                                 else l.due_at end
              from look l
             where l.event_id is not null and not l.taken and not (l.in_line and l.left_out)
               and k.ordering_key = any (array[l.ordering_key])
            returning k.due_at
        ), passed as (
            update sendoff.outbox_key k
               set due_at = now()
              from look l
             where l.in_line and l.left_out and cardinality(found_keys) >= p_most
               and k.ordering_key = any (array[l.ordering_key])
        ), gone as (
            delete from sendoff.outbox_key k
             using look l
             where l.event_id is null and k.ordering_key = any (array[l.ordering_key])
        )
        select h.ordering_key, h.taken_at, h.run, h.lost_one, null::timestamptz, null::bigint, null::bigint,
               null::bigint, null::bigint, null::boolean
          from held h
        union all
        select null, now(), null, coalesce((select bool_or(h.lost) from held h), false), min(p.due_at),
               count(*) + (select count(*) from look l where l.in_line and l.left_out), null, null, null, null
          from put_off p;
        get diagnostics answers = row_count;
        room := p_most - (answers - 1);
    end if;
    if p_rows is null or room <= 0 then
        return;
    end if;
    return query
    with arrived as materialized (
        select e.seq, e.ordering_key collate "C" as ordering_key,
               cardinality(p_types) + cardinality(p_kinds) > 0
               and (e.event_type = any (p_types)
                    or (e.aggregate_type, e.event_type)
                       in (select * from unnest(p_aggregates, p_kinds))) as left_out
          from sendoff.outbox_event e
         where e.status in (0, 2) and e.due_at = '9998-01-01 00:00:00Z' and e.seq > p_after
           and e.ordering_key is not null
         order by e.seq
         -- No more than can be of use, but for a few that may be listed.
         limit least(p_rows, greatest(room, 200))
    ), by_key as materialized (
        -- Entries are looked for one by one: the table may be larger than what is looked for.
        select a.ordering_key, min(a.seq) as first, min(a.seq) filter (where a.left_out) as first_left_out,
               exists (select from sendoff.outbox_key k
                        where k.ordering_key = any (array[a.ordering_key])) as listed
          from arrived a
         group by a.ordering_key
    ), free as materialized (
        select b.ordering_key, b.first
          from by_key b
         where not b.listed and b.first is distinct from b.first_left_out
         order by b.first
         limit room
    ), walked as materialized (
        select max(a.seq) as last, count(*) as rows,
               count(*) filter (where a.ordering_key in (select b.ordering_key from by_key b where b.listed))
                   as listed
          from arrived a
         where a.seq <= (select case when count(*) < room then 9223372036854775807 else max(f.first) end
                           from free f)
    ), fresh as (
        insert into sendoff.outbox_key (ordering_key, due_at, since, taken_at, locked_by, run)
        select f.ordering_key, now() + p_hold, now(), now(), p_me, greatest(p_run, 1)
          from free f
         order by f.ordering_key
        on conflict (ordering_key) do nothing
        returning ordering_key, taken_at, run
    )
    select f.ordering_key, f.taken_at, f.run, false, null::timestamptz, null::bigint, null::bigint,
           null::bigint, null::bigint, null::boolean
      from fresh f
    union all
    select null, now(), null, null, null, null, w.last, w.rows, w.listed,
           not exists (select from sendoff.outbox_event e
                        where e.status in (0, 2) and e.due_at = '9998-01-01 00:00:00Z'
                          and e.seq > coalesce(w.last, p_after) and e.ordering_key is not null)
      from walked w;
end
$body$;

-- outbox_key_free: whether the entry of a key can be had, and locks it until the end of the transaction if there
-- is one.
-- Guarantee: waits for nobody. Index: primary key of the keys.
create or replace function sendoff.outbox_key_free(p_key text) returns boolean
language plpgsql volatile
-- include planned
as $body$
begin
    perform from sendoff.outbox_key k where k.ordering_key = p_key for no key update skip locked;
    return found or not exists (select from sendoff.outbox_key k where k.ordering_key = p_key);
end
$body$;

-- outbox_keys_ended: what follows for the keys of rows that were held by themselves, from how each ended. A key
-- whose event is dead (3) is parked; any other that waits is looked at now, unless somebody is at it already.
-- Guarantee: waits for nobody who has an entry locked, if `outbox_key_free` said yes to those that are parked; and
-- in the order of the keys for whoever is listing one. Index: primary key of the keys.
create or replace function sendoff.outbox_keys_ended(p_keys text[], p_ids uuid[], p_outcomes smallint[])
returns boolean
language plpgsql volatile
-- include planned
as $body$
begin
    if 3 = any (p_outcomes) then
        insert into sendoff.outbox_key (ordering_key, due_at, since, parked_by)
        select distinct on (d.key) d.key, statement_timestamp(), statement_timestamp(), d.id
          from (select u.key collate "C" as key, u.id
                  from unnest(p_keys, p_ids, p_outcomes) as u(key, id, outcome)
                 where u.outcome = 3) d
         order by d.key, d.id desc
        on conflict (ordering_key) do update set parked_by = excluded.parked_by;
    end if;
    update sendoff.outbox_key k
       set due_at = statement_timestamp()
      from (select w.ordering_key
              from (select distinct u.key collate "C" as key from unnest(p_keys) as u(key)) d
              join sendoff.outbox_key w on w.ordering_key = any (array[d.key])
             where w.locked_by is null and w.parked_by is null and w.due_at > statement_timestamp()
               for no key update of w skip locked) w
     where k.ordering_key = any (array[w.ordering_key]);
    return true;
end
$body$;
