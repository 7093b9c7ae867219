-- What a writer in another language is held to, in an outbox and in a journal: `writing_` stands for the name
-- of either, because each of them can be there without the other.
-- Guarantee: each limit is one error that names the field, its size and the limit; none shows a part of a
-- payload. Reads no table. Index: none.

-- A time-ordered id, UUIDv7, for servers that have no function for it: a random one, whose first twelve
-- digits are the time to the nearest millisecond, and the next its version. The time has eleven digits from 2004
-- until 2527.
create or replace function sendoff.writing_uuid_v7() returns uuid
language sql volatile as $body$
    select overlay(gen_random_uuid()::text
                   placing '0' || to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint) || '-7'
                   from 1 for 15)::uuid
$body$;

create or replace function sendoff.writing_check(field text, value text, most integer) returns void
language plpgsql stable as $body$
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

-- Before the table is asked, which would show what it refuses.
create or replace function sendoff.writing_check_payload(payload bytea, content_type text) returns void
language plpgsql stable as $body$
begin
    if payload is null then
        raise exception 'payload is missing' using errcode = 'null_value_not_allowed';
    end if;
    if octet_length(payload) > 1048576 then
        raise exception 'payload is % bytes; the limit is 1048576', octet_length(payload)
            using errcode = 'string_data_right_truncation';
    end if;
    if content_type is null then
        raise exception 'content_type is missing' using errcode = 'null_value_not_allowed';
    end if;
    perform sendoff.writing_check('content_type', content_type, 128);
end
$body$;

-- Text as the bytes it is kept as. What claims to be JSON must be JSON; what is too large is left to the
-- next check. The server's own errors quote what they do not understand, and would show the payload.
create or replace function sendoff.writing_bytes(payload text, content_type text) returns bytea
language plpgsql stable as $body$
declare
    bytes bytea;
begin
    bytes := convert_to(payload, 'UTF8');
    if content_type = 'application/json' and octet_length(bytes) <= 1048576 then
        perform payload::json;
    end if;
    return bytes;
exception
    when data_exception then
        raise exception 'payload is not valid JSON: % bytes', octet_length(payload)
            using errcode = 'invalid_text_representation',
                  hint = 'Give another content_type with text that is no JSON.';
    when statement_too_complex then
        raise exception 'payload is nested too deeply to be read as JSON: % bytes', octet_length(payload)
            using errcode = 'statement_too_complex';
end
$body$;

-- Headers as they are kept: none where there are none.
create or replace function sendoff.writing_headers(headers jsonb) returns jsonb
language plpgsql stable as $body$
declare
    size bigint;
begin
    if headers is null or headers in ('{}', 'null') then
        return null;
    end if;
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
    size := (select sum(octet_length(convert_to(h.key, 'UTF8')) + octet_length(convert_to(h.value, 'UTF8')))
               from jsonb_each_text(headers) h);
    if size > 32768 then
        raise exception 'headers are % bytes together; the limit is 32768', size
            using errcode = 'string_data_right_truncation';
    end if;
    if headers ? '' then
        raise exception 'header name must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    perform sendoff.writing_check('header name', h.key, 128),
            sendoff.writing_check('header value', h.value, 32768)
       from jsonb_each_text(headers) h;
    return headers;
end
$body$;

