-- What an effect and its mark need that are made in one transaction of the caller's.

-- outbox_patience: has this transaction wait for a lock no longer than 10 seconds, and answers how long it did
-- before. A session that waits for a shorter time does so still.
create or replace function sendoff.outbox_patience() returns text
language plpgsql volatile as $body$
declare
    before text := current_setting('lock_timeout');
begin
    if before::interval = interval '0' or before::interval > interval '10 seconds' then
        perform set_config('lock_timeout', '10s', true);
    end if;
    return before;
end
$body$;

-- sendoff_once: remember that a consumer saw an event; true the first time, and false ever after. For any language,
-- in the caller's own transaction.
-- Guarantee: it is remembered if and only if the caller's transaction commits. Where another one is open that
-- saw the same, it waits for that one's end, for 10 seconds or for `lock_timeout` where that is shorter, and
-- raises lock_not_available (55P03) then; above READ COMMITTED it raises serialization_failure (40001) where
-- that one committed. The transaction commits durably, as one with an event does (I13). Index: primary key.
create or replace function sendoff.sendoff_once(consumer text, event_id uuid) returns boolean
language plpgsql volatile as $body$
#variable_conflict use_variable
declare
    before text;
    first  boolean;
begin
    if coalesce(consumer, '') = '' then
        raise exception 'consumer must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if char_length(consumer) > 128 then
        raise exception 'consumer has % characters; the limit is 128', char_length(consumer)
              using errcode = 'invalid_parameter_value';
    end if;
    if consumer ~ '[\n\r]' then
        raise exception 'consumer must not contain a line end' using errcode = 'invalid_parameter_value';
    end if;
    if event_id is null then
        raise exception 'event_id must not be null' using errcode = 'invalid_parameter_value';
    end if;
    before := sendoff.outbox_patience();
    insert into sendoff.inbox_event (consumer, event_id) values (consumer, event_id)
        on conflict do nothing;
    first := found;
    perform set_config('lock_timeout', before, true);
    if first then
        perform sendoff.outbox_durable();
    end if;
    return first;
end
$body$;

-- outbox_settle_in: mark a row as delivered that is held by this token, in the transaction of its effect; true where
-- it was still held by that. Where rows are not kept, it goes.
-- Guarantee: from here on nobody else can have the row until the transaction ends, and a stale token changes
-- nothing. Waits for whoever has the row locked as `sendoff_once` does. Index: primary key; the rest is asked
-- for in a way that no index serves, as in `settle`.
create or replace function sendoff.outbox_settle_in(p_id uuid, p_token timestamptz, p_keep boolean)
returns boolean
language plpgsql volatile
-- include planned
as $body$
declare
    before text := sendoff.outbox_patience();
    kind   text;
    key    text;
    born   timestamptz;
    ours   boolean;
begin
    select e.event_type, e.ordering_key, e.created_at into kind, key, born
      from sendoff.outbox_event e
     where e.event_id = any (array[p_id]) and e.due_at is not distinct from p_token
       and e.status % 2 = 0 and e.locked_by is not null
       for update;
    ours := found;
    if ours and p_keep then
        update sendoff.outbox_event e
           set status = 1, losses = 0, done_at = clock_timestamp(), locked_by = null,
               unavailable_since = null, unroutable_since = null
         where e.event_id = any (array[p_id]) and e.created_at = born;
    elsif ours then
        delete from sendoff.outbox_event e
         where e.event_id = any (array[p_id]) and e.created_at = born;
    end if;
    if ours then
        insert into sendoff.outbox_tally_delta (event_type, status, count) values (kind, 1, 1);
        if key is not null then
            perform sendoff.outbox_keys_ended(array[key], array[p_id], array[1::smallint]);
        end if;
    end if;
    perform set_config('lock_timeout', before, true);
    return ours;
end
$body$;
