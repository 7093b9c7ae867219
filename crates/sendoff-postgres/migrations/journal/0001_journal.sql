-- journal migration 1: the log, its tags, where publishers are, and how to append.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

create table sendoff.journal_event (
    -- Taken one by one, so that whoever has a lower number took it earlier. The tail relies on it.
    position       bigint      not null generated always as identity
                               (sequence name sendoff.journal_position cache 1 no cycle),
    event_id       uuid        not null unique,                          -- [flat]
    event_id       uuid        not null,                                 -- [partitioned]
    occurred_at    timestamptz not null,
    recorded_at    timestamptz not null,
    correlation_id uuid,
    causation_id   uuid,
    event_type     text        not null collate "C",
    content_type   text        not null,
    tags           text[]      not null,
    headers        jsonb,
    payload        bytea       not null,
    primary key (position)
)
partition by range (position)                                            -- [partitioned]
;

-- Written once and read as it is: compressing it is work for nothing.
alter table sendoff.journal_event alter column payload set storage external;

-- Nothing is ever updated, so what vacuum has to do is to freeze, early and in small pieces.
alter table sendoff.journal_event set (autovacuum_vacuum_insert_scale_factor = 0.05); -- [flat]

create index on sendoff.journal_event (event_type, position);

-- A row for each tag of each fact. Its key is all it has: what a condition asks of a tag's history
-- since a position is one step down this tree, however long the history is.
create table sendoff.journal_tag (
    tag      text   not null collate "C",
    position bigint not null,
    primary key (tag, position)
)
partition by range (position)                                            -- [partitioned]
;

alter table sendoff.journal_tag set (autovacuum_vacuum_insert_scale_factor = 0.05); -- [flat]

-- How far each publisher is with each topic.
create table sendoff.journal_cursor (
    topic         text        not null,
    publisher     text        not null,
    last_position bigint      not null default 0,
    status        text        not null default 'ACTIVE',
    error_count   integer     not null default 0,
    last_error    text,
    leader        text,
    epoch         bigint      not null default 0,
    heartbeat_at  timestamptz,
    published_at  timestamptz,
    updated_at    timestamptz not null default now(),
    primary key (topic, publisher),
    check (last_position >= 0),
    check (status in ('ACTIVE', 'PAUSED', 'FAILED')),
    check (error_count >= 0)
);

-- What a publisher could not deliver and was set aside.
create table sendoff.journal_parked (
    topic     text        not null,
    publisher text        not null,
    position  bigint      not null,
    parked_at timestamptz not null default now(),
    next_at   timestamptz,
    attempts  integer     not null default 0,
    error     text,
    primary key (topic, publisher, position),
    check (attempts >= 0)
);

-- Which facts a query means, the lowest first. A query is a list of searches, each for one item or,
-- where an item has types and no tag, for one of its types:
--   kind 1: facts with all of `tags`, of one of `types` or of any; searched by the tag that is
--           rarest, as far as a hundred of each tell
--   kind 2: facts of the type `types[1]`
--   kind 3: all facts
-- `tags` and `types` are arrays in text form, because arrays of arrays must be rectangular.
-- Guarantee: each position once. Cost: grows with what is found between the two positions, not with
-- what is before. Index: primary key of journal_tag; (event_type, position); primary key.
create function sendoff.journal_search(
    kinds smallint[], tags text[], types text[], above bigint, up_to bigint, most bigint
) returns table (found bigint)
language sql stable as $body$
    select distinct hit.position
      from unnest(kinds, tags, types) as s(kind, tags, types)
     cross join lateral (
        (select t.position
           from sendoff.journal_tag t
           join sendoff.journal_event e on e.position = t.position
          where s.kind = 1
            and t.tag = case when cardinality(s.tags::text[]) = 1 then (s.tags::text[])[1] else (
                select candidate.tag
                  from unnest(s.tags::text[]) as candidate(tag)
                 order by (select count(*)
                             from (select from sendoff.journal_tag probe
                                    where probe.tag = candidate.tag
                                      and probe.position > above and probe.position <= up_to
                                    limit 100) as counted)
                 limit 1) end
            and t.position > above and t.position <= up_to
            and e.tags @> s.tags::text[]
            and (s.types is null or e.event_type = any (s.types::text[]))
          order by t.position
          limit most)
        union all
        (select e.position
           from sendoff.journal_event e
          where s.kind = 2
            and e.event_type = (s.types::text[])[1]
            and e.position > above and e.position <= up_to
          order by e.position
          limit most)
        union all
        (select e.position
           from sendoff.journal_event e
          where s.kind = 3
            and e.position > above and e.position <= up_to
          order by e.position
          limit most)
     ) as hit
     order by hit.position
     limit most
$body$;

-- Takes locks in the order given. They are advisory, in the space of two integers, of which the first
-- is this journal's; they end with the transaction.
create function sendoff.journal_lock(keys integer[], alone boolean[]) returns void
language plpgsql volatile as $body$
declare
    journal constant integer := 'sendoff.journal_event'::regclass::oid::integer;
begin
    for at in 1 .. cardinality(keys) loop
        if alone[at] then
            perform pg_catalog.pg_advisory_xact_lock(journal, keys[at]);
        else
            perform pg_catalog.pg_advisory_xact_lock_shared(journal, keys[at]);
        end if;
    end loop;
end
$body$;

-- The last position that was taken, once nobody has an append open that these locks exclude: whatever
-- they exclude and comes later has a higher one. `patience` is how long to wait, in milliseconds.
-- Guarantee: facts that the locks exclude, up to this position, are all visible to the next statement.
create function sendoff.journal_decide(keys integer[], alone boolean[], patience integer)
returns bigint
language plpgsql volatile
set lock_timeout = 0
as $body$
begin
    perform pg_catalog.set_config('lock_timeout', patience::text, true);
    perform sendoff.journal_lock(keys, alone);
    -- Not by pg_sequence_last_value, which locks the sequence as an append does.
    return (select case when is_called then last_value else 0 end from sendoff.journal_position);
end
$body$;

-- include journal_clash

-- How many of these facts are there, with the same type, tags, content type and payload.
create function sendoff.journal_known(
    ids uuid[], types text[], tags text[], content_types text[], payloads bytea[]
) returns bigint
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $body$
begin
    return (select count(*)
              from unnest(ids, types, tags, content_types, payloads)
                   as i(id, type, tags, content_type, payload)
              join sendoff.journal_id k on k.event_id = i.id             -- [partitioned]
              join sendoff.journal_event e
                on e.event_id = i.id and e.event_type = i.type and e.tags = i.tags::text[]
               and e.position = k.position                               -- [partitioned]
               and e.content_type = i.content_type and e.payload = i.payload);
end
$body$;

-- include journal_append
