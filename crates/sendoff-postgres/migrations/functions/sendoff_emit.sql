-- sendoff_emit: write an event from any language, in the caller's own transaction.
-- Guarantee: the limits of every other writer, each with one error that names the field, its size and the
-- limit; the same shard; the bell is rung where it must be. No error shows a part of the payload. Its
-- transaction commits durably also where the session said `synchronous_commit = off` (I13), unless it said
-- `sendoff_emit.durable_events = off` as well. An event with a key and without a delay is in line.
-- One function for each kind of payload: a literal, or a parameter without a type, is text, because that is
-- the type that PostgreSQL prefers. Index: primary key.

-- Wakes the relay, if it sleeps. One expression, which the server puts in place of the call.
create or replace function sendoff.outbox_ring(wanted boolean) returns boolean
language sql volatile as $body$
    select case when wanted and pg_sequence_last_value('sendoff.outbox_bell') = 2
                then pg_notify('sendoff_channel', '')::text is not null else false end
$body$;

-- Has the transaction commit durably (I13). One expression, too.
create or replace function sendoff.outbox_durable() returns text
language sql volatile as $body$
    select case when current_setting('synchronous_commit') = 'off'
                 and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off'
                then set_config('synchronous_commit', 'local', true) end
$body$;

-- The shard of an event: of its key, or of its id where it has none. One expression, too.
create or replace function sendoff.outbox_shard(event_id uuid, ordering_key text) returns integer
language sql stable as $body$
    select case when ordering_key is null then get_byte(uuid_send(event_id), 15)
                else get_byte(sha256(convert_to(ordering_key, 'UTF8')), 0) end % 64
$body$;

-- When an event is due that was created at this time; one that is in line, at none. One expression, too.
create or replace function sendoff.outbox_due(at timestamptz, delay interval, ordering_key text)
returns timestamptz
language sql stable as $body$
    select case when ordering_key is not null and delay = interval '0' then timestamptz '9998-01-01 00:00:00Z'
                else at + delay end
$body$;

-- An event that sendoff_emit does not see to be right at a glance: it is, and is written, or this raises. Says
-- which limit was passed, and has the headers as they are kept.
create or replace function sendoff.outbox_emit_checked(
    event_type text, payload bytea, aggregate_type text, aggregate_id text, tenant_id text,
    ordering_key text, headers jsonb, content_type text, event_id uuid, delay interval
) returns uuid
language plpgsql volatile as $body$
#variable_conflict use_variable
declare
    -- Read once, so that the row is due exactly `delay` after it was created.
    at      timestamptz := clock_timestamp();
    rung    boolean;
    commits text;
begin
    if coalesce(event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(aggregate_type, '') = '' then
        raise exception 'aggregate_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    perform sendoff.writing_check_payload(payload, content_type);
    perform sendoff.writing_check('event_type', event_type, 128);
    perform sendoff.writing_check('aggregate_type', aggregate_type, 64);
    perform sendoff.writing_check('aggregate_id', aggregate_id, 128);
    perform sendoff.writing_check('tenant_id', tenant_id, 64);
    perform sendoff.writing_check('ordering_key', ordering_key, 128);
    headers := sendoff.writing_headers(headers);
    if delay is null or delay < interval '0' or delay > interval '3650 days' then
        raise exception 'delay is %; it must lie between 0 and 3650 days', coalesce(delay::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    insert into sendoff.outbox_event
           (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, occurred_at, due_at, created_at, headers, payload, delayed_until)
    values (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
            sendoff.outbox_shard(event_id, ordering_key), content_type, at,
            sendoff.outbox_due(at, delay, ordering_key), at,
            headers, payload, case when delay > interval '0' then at + delay end)
    -- Without naming the key, for which a writer would need the right to read it.
    on conflict do nothing
    returning sendoff.outbox_ring(delay = interval '0'), sendoff.outbox_durable() into rung, commits;
    if not found then
        raise exception 'an event with the event_id % is there already', event_id
            using errcode = 'unique_violation', constraint = 'outbox_event_pkey';
    end if;
    return event_id;
end
$body$;

-- Bytes, kept as they are.
create or replace function sendoff.sendoff_emit(
    event_type     text,
    payload        bytea,
    aggregate_type text     default '__GLOBAL__',
    aggregate_id   text     default null,
    tenant_id      text     default null,
    ordering_key   text     default null,
    headers        jsonb    default null,
    content_type   text     default 'application/octet-stream',
    event_id       uuid     default null,
    delay          interval default '0'
) returns uuid
language plpgsql volatile as $body$
#variable_conflict use_variable
declare
    new_id uuid := coalesce(event_id, sendoff.writing_uuid_v7());
begin
    -- Most events, in one statement with a short condition: the server makes both ready anew in every
    -- transaction, and that costs more than what they do; each function in it costs about the same, whatever it
    -- does. Whatever this does not see to be right at a glance, and whatever has to be rung for or made durable, is
    -- left to `outbox_emit_checked`. Names fit where all of one limit do together, as a pattern that is one
    -- character longer finds; the same look finds line breaks.
    insert into sendoff.outbox_event
           (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, occurred_at, due_at, created_at, payload)
    select new_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
           sendoff.outbox_shard(new_id, ordering_key), content_type, i.at,
           case when ordering_key is null then i.at else timestamptz '9998-01-01 00:00:00Z' end, i.at, payload
      -- Read once, so that the row is due when it was created.
      from (select clock_timestamp() as at) i
     where event_id is null and headers is null and delay = interval '0'
       and event_type <> '' and aggregate_type <> '' and content_type is not null
       and concat(event_type, content_type, aggregate_id, ordering_key) collate "C"
           not like all (array[E'%\n%', E'%\r%', repeat('_', 129) || '%'])
       and concat(aggregate_type, tenant_id) collate "C"
           not like all (array[E'%\n%', E'%\r%', repeat('_', 65) || '%'])
       and octet_length(payload) <= 1048576
       and current_setting('synchronous_commit') <> 'off'
       and pg_sequence_last_value('sendoff.outbox_bell') <> 2;
    if found then
        return new_id;
    end if;
    return sendoff.outbox_emit_checked(event_type, payload, aggregate_type, aggregate_id, tenant_id,
                                       ordering_key, headers, content_type, new_id, delay);
end
$body$;

-- Text, kept to the byte in UTF-8. What claims to be JSON must be JSON.
create or replace function sendoff.sendoff_emit(
    event_type     text,
    payload        text,
    aggregate_type text     default '__GLOBAL__',
    aggregate_id   text     default null,
    tenant_id      text     default null,
    ordering_key   text     default null,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    delay          interval default '0'
) returns uuid
language sql volatile as $body$
    select sendoff.sendoff_emit(event_type, sendoff.writing_bytes(payload, content_type), aggregate_type,
        aggregate_id, tenant_id, ordering_key, headers, content_type, event_id, delay)
$body$;

-- JSON, whose text is kept to the byte.
create or replace function sendoff.sendoff_emit(
    event_type     text,
    payload        json,
    aggregate_type text     default '__GLOBAL__',
    aggregate_id   text     default null,
    tenant_id      text     default null,
    ordering_key   text     default null,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    delay          interval default '0'
) returns uuid
language sql volatile as $body$
    select sendoff.sendoff_emit(event_type, convert_to(payload::text, 'UTF8'), aggregate_type,
        aggregate_id, tenant_id, ordering_key, headers, content_type, event_id, delay)
$body$;

-- JSON in binary, of which PostgreSQL has kept the value and not the text: written in its own form.
create or replace function sendoff.sendoff_emit(
    event_type     text,
    payload        jsonb,
    aggregate_type text     default '__GLOBAL__',
    aggregate_id   text     default null,
    tenant_id      text     default null,
    ordering_key   text     default null,
    headers        jsonb    default null,
    content_type   text     default 'application/json',
    event_id       uuid     default null,
    delay          interval default '0'
) returns uuid
language sql volatile as $body$
    select sendoff.sendoff_emit(event_type, convert_to(payload::text, 'UTF8'), aggregate_type,
        aggregate_id, tenant_id, ordering_key, headers, content_type, event_id, delay)
$body$;
