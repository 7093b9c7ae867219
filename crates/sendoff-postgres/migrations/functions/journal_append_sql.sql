-- journal_append for any language: appends a fact in the caller's own transaction, under a condition if
-- there is one, and answers its position.
-- Guarantee: takes the locks that every other writer of this journal takes (see `Locks` in sendoff-core), so
-- that those who exclude one another meet, whatever they are written in; the limits of every other writer.
-- `unless` are the facts that must not be there above the position `after`: an array of items, each
-- {"types": [...], "tags": [...]}, of which a fact is meant if it has one of the types and all of the tags.
-- Where there is one, an exclusion_violation, and nothing was changed; the transaction must be at READ
-- COMMITTED. A fact that is there already with the same id and the same content answers with its position.
-- It waits for others for `patience` at most (lock_not_available). No error shows a part of the payload.
-- It commits durably, as with the function that it calls.
-- Index: those of that function.

-- What stands for a tag (kind '=') or a type (kind ':') among locks: the first four bytes of SHA-256.
create or replace function sendoff.journal_key(kind text, name text) returns integer
language sql stable as $body$
    select ('x' || encode(substring(sha256(convert_to(kind || name, 'UTF8')) from 1 for 4), 'hex'))
           ::bit(32)::integer
$body$;

-- What an append of a fact of this type and with these tags locks, under this condition, in order: each key
-- once, in its strongest mode; the journal alone where there are more than 64.
create or replace function sendoff.journal_keys(of_type text, of_tags text[], unless jsonb)
returns table (key integer, alone boolean)
language sql stable as $body$
    with item as (
        select coalesce((select array_agg(t.tag order by convert_to(t.tag, 'UTF8'))
                           from jsonb_array_elements_text(i.item -> 'tags') as t(tag)), '{}') as tags,
               coalesce((select array_agg(t.type)
                           from jsonb_array_elements_text(i.item -> 'types') as t(type)), '{}') as types
          from jsonb_array_elements(unless) as i(item)
    ), wanted (key, alone) as (
        select 0, coalesce(jsonb_array_length(unless) = 0, false)
        union all
        select sendoff.journal_key(':', of_type), false
        union all
        select sendoff.journal_key('=', t.tag), false from unnest(of_tags) as t(tag)
        union all
        -- One is enough: a fact that is meant has all of them.
        select sendoff.journal_key('=', item.tags[1]), true from item where cardinality(item.tags) > 0
        union all
        select sendoff.journal_key(':', t.type), true
          from item cross join unnest(item.types) as t(type)
         where cardinality(item.tags) = 0
        union all
        select 0, true from item where cardinality(item.tags) = 0 and cardinality(item.types) = 0
    ), strongest as (
        select w.key, bool_or(w.alone) as alone from wanted w group by w.key
    ), whole as (
        select count(*) > 64 or bool_or(s.key = 0 and s.alone) as is_locked from strongest s
    )
    select s.key, s.alone or whole.is_locked
      from strongest s cross join whole
     where s.key = 0 or not whole.is_locked
     order by s.key
$body$;

-- Tags as they are kept: in order of their bytes, each once.
create or replace function sendoff.journal_tags(tags text[]) returns text[]
language plpgsql stable as $body$
declare
    sorted text[] := coalesce((select array_agg(t.tag order by convert_to(t.tag, 'UTF8'))
                                 from (select distinct u.tag collate "C" as tag
                                         from unnest(tags) as u(tag)) as t), '{}');
    tag    text;
    ends   integer;
begin
    if cardinality(sorted) > 64 then
        raise exception 'tags: % given; the limit is 64', cardinality(sorted)
            using errcode = 'invalid_parameter_value';
    end if;
    foreach tag in array sorted loop
        ends := coalesce(strpos(tag, '='), 0);
        if ends < 2 or ends = char_length(tag) then
            raise exception 'a tag is written key=value; neither may be empty'
                using errcode = 'invalid_parameter_value';
        end if;
        perform sendoff.writing_check('tag key', left(tag, ends - 1), 64);
        perform sendoff.writing_check('tag value', substr(tag, ends + 1), 128);
    end loop;
    return sorted;
end
$body$;

-- A condition in its one form: an array of items with both lists, of which all is as it should be.
create or replace function sendoff.journal_condition(unless jsonb) returns jsonb
language plpgsql stable as $body$
declare
    item   jsonb;
    items  jsonb := '[]';
    types  text[];
begin
    if unless is null or unless = 'null' then
        return null;
    end if;
    if jsonb_typeof(unless) = 'object' then
        unless := jsonb_build_array(unless);
    end if;
    if jsonb_typeof(unless) <> 'array' then
        raise exception 'unless must be an array of items, such as [{"types": ["a"], "tags": ["k=v"]}]'
            using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_array_length(unless) > 256 then
        raise exception 'items of unless: % given; the limit is 256', jsonb_array_length(unless)
            using errcode = 'invalid_parameter_value';
    end if;
    for item in select i.item from jsonb_array_elements(unless) as i(item) loop
        if jsonb_typeof(item) <> 'object'
           or exists (select from jsonb_each(item) as part(name, list)
                       where part.name not in ('types', 'tags') or jsonb_typeof(part.list) <> 'array')
           or exists (select from jsonb_each(item) as part(name, list)
                       cross join jsonb_array_elements(part.list) as of_list(value)
                       where jsonb_typeof(of_list.value) <> 'string') then
            raise exception 'an item of unless has "types" and "tags", which are arrays of strings'
                using errcode = 'invalid_parameter_value';
        end if;
        types := coalesce((select array_agg(distinct t.type)
                             from jsonb_array_elements_text(item -> 'types') as t(type)), '{}');
        if cardinality(types) > 256 then
            raise exception 'types of an item of unless: % given; the limit is 256', cardinality(types)
                using errcode = 'invalid_parameter_value';
        end if;
        perform sendoff.writing_check('event_type', t.type, 128) from unnest(types) as t(type);
        items := items || jsonb_build_object('types', to_jsonb(types), 'tags',
            to_jsonb(sendoff.journal_tags(array(
                select t.tag from jsonb_array_elements_text(item -> 'tags') as t(tag)))));
    end loop;
    return items;
end
$body$;

-- Bytes, kept as they are.
create or replace function sendoff.journal_append(
    event_type     text,
    payload        bytea,
    tags           text[]   default '{}',
    unless         jsonb    default null,
    after          bigint   default 0,
    headers        jsonb    default null,
    content_type   text     default 'application/octet-stream',
    event_id       uuid     default null,
    correlation_id uuid     default null,
    causation_id   uuid     default null,
    patience       interval default '5 seconds'
) returns bigint
language plpgsql volatile as $body$
#variable_conflict use_variable
declare
    new_id     uuid     := coalesce(event_id, sendoff.writing_uuid_v7());
    sorted     text[]   := sendoff.journal_tags(tags);
    items      jsonb    := sendoff.journal_condition(unless);
    keys       integer[];
    alone      boolean[];
    kinds      smallint[];
    kind_tags  text[];
    kind_types text[];
    answer     record;
begin
    if coalesce(event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    perform sendoff.writing_check('event_type', event_type, 128);
    perform sendoff.writing_check_payload(payload, content_type);
    headers := sendoff.writing_headers(headers);
    if after is null or after < 0 then
        raise exception 'after is %; it must be a position, 0 or more', coalesce(after::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if patience is null or patience < interval '1 millisecond' or patience > interval '10 minutes' then
        raise exception 'patience is %; it must lie between 1 millisecond and 10 minutes',
            coalesce(patience::text, 'null') using errcode = 'invalid_parameter_value';
    end if;
    select array_agg(k.key order by k.key), array_agg(k.alone order by k.key) into keys, alone
      from sendoff.journal_keys(event_type, sorted, items) as k;
    -- As journal_search wants it: an item by its tags, else by each of its types, else all facts.
    if items is not null then
        select coalesce(array_agg(s.kind), '{3}'), coalesce(array_agg(s.tags), '{null}'),
               coalesce(array_agg(s.types), '{null}')
          into kinds, kind_tags, kind_types
          from (select array(select jsonb_array_elements_text(i.item -> 'tags')) as tags,
                       array(select jsonb_array_elements_text(i.item -> 'types')) as types
                  from jsonb_array_elements(items) as i(item)) as i
         cross join lateral (
            select 1::smallint, i.tags::text,
                   case when cardinality(i.types) > 0 then i.types::text end
             where cardinality(i.tags) > 0
            union all
            select 2::smallint, null, array[t.type]::text
              from unnest(i.types) as t(type)
             where cardinality(i.tags) = 0
            union all
            select 3::smallint, null, null
             where cardinality(i.tags) = 0 and cardinality(i.types) = 0
         ) as s(kind, tags, types);
    end if;
    select a.outcome, a.place into answer
      from sendoff.journal_append(
           keys, alone, (extract(epoch from patience) * 1000)::integer,
           array[new_id], array[event_type], array[sorted::text], array[content_type],
           array[clock_timestamp()], array[headers], array[payload], array[correlation_id],
           array[causation_id], kinds, kind_tags, kind_types, after) as a;
    case answer.outcome
        when 0, 1 then
            return answer.place;
        when 2 then
            raise exception 'the condition does not hold: there is such a fact at position %', answer.place
                using errcode = 'exclusion_violation';
        when 3 then
            raise exception 'a condition needs a transaction at READ COMMITTED, and this one is at %',
                upper(current_setting('transaction_isolation'))
                using errcode = 'invalid_transaction_state';
        else
            raise exception 'a fact with the event_id % is there already, and is another', new_id
                using errcode = 'unique_violation';
    end case;
end
$body$;

-- Text, kept to the byte in UTF-8. What claims to be JSON must be JSON.
create or replace function sendoff.journal_append(
    event_type     text,
    payload        text,
    tags           text[]   default '{}',
    unless         jsonb    default null,
    after          bigint   default 0,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    correlation_id uuid     default null,
    causation_id   uuid     default null,
    patience       interval default '5 seconds'
) returns bigint
language sql volatile as $body$
    select sendoff.journal_append(event_type, sendoff.writing_bytes(payload, content_type), tags, unless, after,
        headers, content_type, event_id, correlation_id, causation_id, patience)
$body$;

-- JSON, whose text is kept to the byte.
create or replace function sendoff.journal_append(
    event_type     text,
    payload        json,
    tags           text[]   default '{}',
    unless         jsonb    default null,
    after          bigint   default 0,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    correlation_id uuid     default null,
    causation_id   uuid     default null,
    patience       interval default '5 seconds'
) returns bigint
language sql volatile as $body$
    select sendoff.journal_append(event_type, convert_to(payload::text, 'UTF8'), tags, unless, after,
        headers, content_type, event_id, correlation_id, causation_id, patience)
$body$;

-- JSON in binary, of which PostgreSQL has kept the value and not the text: written in its own form.
create or replace function sendoff.journal_append(
    event_type     text,
    payload        jsonb,
    tags           text[]   default '{}',
    unless         jsonb    default null,
    after          bigint   default 0,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    correlation_id uuid     default null,
    causation_id   uuid     default null,
    patience       interval default '5 seconds'
) returns bigint
language sql volatile as $body$
    select sendoff.journal_append(event_type, convert_to(payload::text, 'UTF8'), tags, unless, after,
        headers, content_type, event_id, correlation_id, causation_id, patience)
$body$;
