-- sendoff_emit: write an event from any language, in the caller's own transaction.
-- Guarantee: the limits of every other writer, each with one error that names the field, its size and the
-- limit; the same shard; the bell is rung where it must be. No error shows a part of the payload. Its
-- transaction commits durably also where the session said `synchronous_commit = off` (I13), unless it said
-- `sendoff_emit.durable_events = off` as well.
-- One function for each kind of payload: a literal, or a parameter without a type, is text, because that is
-- the type that PostgreSQL prefers. Index: primary key.

create or replace function sendoff.outbox_check(field text, value text, most integer) returns void
language plpgsql immutable as $body$
begin
    if value is null then
        return;
    end if;
    if char_length(value) > most then
        raise exception '% has % characters; the limit is %', field, char_length(value), most
            using errcode = 'string_data_right_truncation';
    end if;
    if value ~ '[\r\n]' then
        raise exception '% must not contain a line break', field
            using errcode = 'invalid_parameter_value';
    end if;
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
    new_id uuid := coalesce(event_id, sendoff.outbox_uuid_v7());
    shard  smallint;
    size   bigint;
    -- Read once, so that the row is due exactly `delay` after it was created.
    at     timestamptz := clock_timestamp();
begin
    if coalesce(event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(aggregate_type, '') = '' then
        raise exception 'aggregate_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    -- What the table would refuse, it would show.
    if payload is null then
        raise exception 'payload is missing' using errcode = 'null_value_not_allowed';
    end if;
    if content_type is null then
        raise exception 'content_type is missing' using errcode = 'null_value_not_allowed';
    end if;
    if octet_length(payload) > 1048576 then
        raise exception 'payload is % bytes; the limit is 1048576', octet_length(payload)
            using errcode = 'string_data_right_truncation';
    end if;
    perform sendoff.outbox_check('event_type', event_type, 128);
    perform sendoff.outbox_check('aggregate_type', aggregate_type, 64);
    perform sendoff.outbox_check('aggregate_id', aggregate_id, 128);
    perform sendoff.outbox_check('tenant_id', tenant_id, 64);
    perform sendoff.outbox_check('ordering_key', ordering_key, 128);
    perform sendoff.outbox_check('content_type', content_type, 128);
    if headers = '{}' or headers = 'null' then
        headers := null;
    end if;
    if headers is not null then
        if jsonb_typeof(headers) <> 'object'
           or exists (select from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string') then
            raise exception 'headers must be a JSON object whose values are strings'
                using errcode = 'invalid_parameter_value';
        end if;
        size := (select count(*) from jsonb_object_keys(headers));
        if size > 64 then
            raise exception 'headers: % given; the limit is 64', size
                using errcode = 'invalid_parameter_value';
        end if;
        size := (select sum(octet_length(convert_to(h.key, 'UTF8'))
                            + octet_length(convert_to(h.value, 'UTF8')))
                   from jsonb_each_text(headers) h);
        if size > 32768 then
            raise exception 'headers are % bytes together; the limit is 32768', size
                using errcode = 'string_data_right_truncation';
        end if;
        perform sendoff.outbox_check('header name', h.key, 128),
                sendoff.outbox_check('header value', h.value, 32768)
           from jsonb_each_text(headers) h;
        if headers ? '' then
            raise exception 'header name must not be empty'
                using errcode = 'invalid_parameter_value';
        end if;
    end if;
    if delay is null or delay < interval '0' or delay > interval '3650 days' then
        raise exception 'delay is %; it must lie between 0 and 3650 days', coalesce(delay::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    shard := case when ordering_key is null then get_byte(uuid_send(new_id), 15)
                  else get_byte(sha256(convert_to(ordering_key, 'UTF8')), 0) end % 64;
    insert into sendoff.outbox_event as e
           (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, occurred_at, due_at, created_at, headers, payload, delayed_until)
    values (new_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, at, at + delay, at,
            headers, payload, case when delay > interval '0' then at + delay end)
    -- Without naming the key, for which a writer would need the right to read it.
    on conflict do nothing;
    if not found then
        raise exception 'an event with the event_id % is there already', new_id
            using errcode = 'unique_violation', constraint = 'outbox_event_pkey';
    end if;
    if current_setting('synchronous_commit') = 'off'
       and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
    perform sendoff.outbox_ring(delay = interval '0');
    return new_id;
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
language plpgsql volatile as $body$
declare
    bytes bytea;
begin
    -- The server's own errors quote what they do not understand, and would show the payload.
    begin
        bytes := convert_to(payload, 'UTF8');
        -- What is too large is refused as that, by what follows.
        if content_type = 'application/json' and octet_length(bytes) <= 1048576 then
            perform payload::json;
        end if;
    exception
        when data_exception then
            raise exception 'payload is not valid JSON: % bytes', octet_length(payload)
                using errcode = 'invalid_text_representation',
                      hint = 'Give another content_type with text that is no JSON.';
        when statement_too_complex then
            raise exception 'payload is nested too deeply to be read as JSON: % bytes',
                octet_length(payload) using errcode = 'statement_too_complex';
    end;
    return sendoff.sendoff_emit(event_type, bytes, aggregate_type, aggregate_id, tenant_id,
        ordering_key, headers, content_type, event_id, delay);
end
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
