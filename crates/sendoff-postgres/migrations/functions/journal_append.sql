-- Appends facts, all or none, in the caller's transaction; under a condition, if there is one: that a
-- search above the position `after` finds nothing.
-- Guarantee: locks, check and insert are statements of their own, each with a snapshot that is younger
-- than what came before, which is so only at READ COMMITTED. Answers one row for each fact, in order:
--   0  appended at `place`
--   1  it was there already, at `place`, with the same type, tags, content type and payload
-- or one row for all of them, and nothing was changed:
--   2  the condition does not hold: there is a fact at `place`
--   3  the transaction is not at READ COMMITTED, and there is a condition
--   4  an id is there already, with something else
-- A mixture of new and known ids is an error (unique_violation).
-- What is appended commits durably, also where the session said `synchronous_commit = off`, unless it
-- said `sendoff_emit.durable_events = off` as well: a fact that was published must not be gone after a
-- crash, and its position another's (I13). Every other value stays: no commit waits for a standby
-- because of it.
-- Tails that sleep are rung for when it commits; see journal_ring.
-- Index: as journal_search; unique (event_id), or in partitions the primary key of journal_id.
create or replace function sendoff.journal_append(
    keys integer[], alone boolean[], patience integer,
    new_ids uuid[], new_types text[], new_tags text[], new_content_types text[],
    new_occurred timestamptz[], new_headers jsonb[], new_payloads bytea[],
    new_correlations uuid[], new_causations uuid[],
    kinds smallint[], kind_tags text[], kind_types text[], after bigint
) returns table (outcome integer, place bigint, at timestamptz)
language plpgsql volatile
-- What is set below lasts until the function returns.
set lock_timeout = 0
as $body$
declare
    clash   bigint;
    counted bigint := 0;
begin
    if kinds is not null
       and current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        outcome := 3;
        return next;
        return;
    end if;
    perform set_config('lock_timeout', patience::text, true);
    perform sendoff.journal_lock(keys, alone);
    if kinds is not null then
        clash := sendoff.journal_clash(kinds, kind_tags, kind_types, after);
    end if;
    -- Until the end of the transaction, not of the function: only what the function itself sets is
    -- restored when it returns.
    if clash is null and current_setting('synchronous_commit') = 'off'
       and coalesce(current_setting('sendoff_emit.durable_events', true), '') <> 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
    outcome := 0;
    at := clock_timestamp();
    if clash is null and cardinality(new_ids) = 1 then
        -- The usual append, in statements that cost little more than by hand.
        insert into sendoff.journal_event as e
               (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers,
                payload, correlation_id, causation_id)
        values (new_ids[1], new_types[1], new_tags[1]::text[], new_content_types[1],
                new_occurred[1], at, new_headers[1], new_payloads[1], new_correlations[1],
                new_causations[1])
        on conflict (event_id) do nothing                                -- [flat]
        returning e.position into place;
        if place is not null then
            insert into sendoff.journal_tag (tag, position)
            select t.tag, place from unnest(new_tags[1]::text[]) as t(tag);
            perform sendoff.journal_ring(false);
            return next;
            return;
        end if;
    elsif clash is null then
        return query
        with new as (
            insert into sendoff.journal_event as e
                   (event_id, event_type, tags, content_type, occurred_at, recorded_at, headers,
                    payload, correlation_id, causation_id)
            select i.id, i.type, i.tags::text[], i.content_type, i.occurred_at, at, i.headers,
                   i.payload, i.correlation, i.causation
              from unnest(new_ids, new_types, new_tags, new_content_types, new_occurred,
                          new_headers, new_payloads, new_correlations, new_causations)
                   as i(id, type, tags, content_type, occurred_at, headers, payload, correlation,
                        causation)
            on conflict (event_id) do nothing                            -- [flat]
            returning e.position, e.tags
        ), tagged as (
            insert into sendoff.journal_tag (tag, position)
            select t.tag, new.position from new cross join unnest(new.tags) as t(tag)
        )
        select 0, new.position, at from new order by new.position;
        get diagnostics counted = row_count;
        if counted = cardinality(new_ids) then
            perform sendoff.journal_ring(false);
            return;
        end if;
        if counted > 0 then
            raise exception 'some of the facts were appended before, and some were not'
                using errcode = 'unique_violation', constraint = 'journal_append_ids';
        end if;
    end if;
    -- What was appended before by the same call, whose answer was lost, is no conflict with itself.
    counted := sendoff.journal_known(new_ids, new_types, new_tags, new_content_types, new_payloads);
    if counted = cardinality(new_ids) then
        return query
        select 1, e.position, e.recorded_at
          from unnest(new_ids) with ordinality as i(id, nth)
          join sendoff.journal_event e on e.event_id = i.id              -- [flat]
          join sendoff.journal_id k on k.event_id = i.id                 -- [partitioned]
          join sendoff.journal_event e on e.position = k.position        -- [partitioned]
         order by i.nth;
    else
        outcome := case when clash is null then 4 else 2 end;
        place := clash;
        at := null;
        return next;
    end if;
end
$body$;
