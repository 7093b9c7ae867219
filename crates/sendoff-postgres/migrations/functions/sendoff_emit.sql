-- sendoff_emit: write an event from any language, in the caller's own transaction.
-- Guarantee: the limits of every other writer; the same shard; the bell is rung where it must be. Its
-- transaction commits durably also where the session said `synchronous_commit = off` (I13), unless it said
-- `sendoff_emit.durable_events = off` as well.
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
    -- Read once, so that the row is due exactly `delay` after it was created.
    at     timestamptz := clock_timestamp();
begin
    if coalesce(event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(aggregate_type, '') = '' then
        raise exception 'aggregate_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if payload is null then
        raise exception 'payload is missing' using errcode = 'null_value_not_allowed';
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
            raise exception 'headers are a JSON object of texts'
                using errcode = 'invalid_parameter_value';
        end if;
        if (select count(*) from jsonb_each(headers)) > 64 then
            raise exception 'headers: the limit is 64' using errcode = 'invalid_parameter_value';
        end if;
        if (select sum(octet_length(h.key) + octet_length(h.value))
              from jsonb_each_text(headers) h) > 32768 then
            raise exception 'headers: the limit is 32768 bytes together'
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
        raise exception 'delay must lie between 0 and 3650 days'
            using errcode = 'invalid_parameter_value';
    end if;
    shard := case when ordering_key is null then get_byte(uuid_send(new_id), 15)
                  else get_byte(sha256(convert_to(ordering_key, 'UTF8')), 0) end % 64;
    insert into sendoff.outbox_event as e
           (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, occurred_at, due_at, created_at, headers, payload, delayed_until)
    values (new_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
            content_type, at, at + delay, at,
            headers, payload, case when delay > interval '0' then at + delay end);
    if current_setting('synchronous_commit') = 'off'
       and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
    perform sendoff.outbox_ring(delay = interval '0');
    return new_id;
end
$body$;
