-- What a role has not of what it works with: tables, columns, sequences, functions and rights. A row for
-- each thing that is not there (kind 0: its name), for each table that lacks columns (1: its name, the
-- columns), and for each thing that may not be used (2: its name, the rights), with the name of the role.
-- Guarantee: reads the catalogue only; no row means that all is there. What a role may do to some columns
-- counts as a right. Index: the catalogue's own.

-- ready, of an outbox: for delivering, from tables that others write to. Of a journal: for publishing. With
-- the bell where there is one ($1).
-- text ready
with wanted (kind, name, columns, rights) as (values
    {delivering}  -- [outbox]
    {publishing}  -- [journal]
), found as materialized (
    select w.*, case w.kind when 'function' then to_regprocedure(w.name)::oid
                            else to_regclass(w.name)::oid end as thing
      from wanted w
     where w.name is not null
), lacks (kind, what, lacking) as (
    select 0, f.name, ''
      from found f
     where f.thing is null
    union all
    select 1, f.name, string_agg(c.name, ', ' order by c.name)
      from found f cross join unnest(string_to_array(f.columns, ' ')) as c(name)
     where f.thing is not null
       and not exists (select from pg_attribute a
                        where a.attrelid = f.thing and a.attname = c.name and not a.attisdropped)
     group by f.name
    union all
    select 2, case f.kind when 'table' then f.name else f.kind || ' ' || f.name end,
           string_agg(replace(r.name, ',', ', '), ', ' order by r.name)
      from found f cross join unnest(string_to_array(f.rights, ' ')) as r(name)
     where f.thing is not null
       and not case when f.kind = 'function' then has_function_privilege(f.thing, r.name)
                    when f.kind = 'sequence' then has_sequence_privilege(f.thing, r.name)
                    when r.name = 'delete' then has_table_privilege(f.thing, r.name)
                    else has_any_column_privilege(f.thing, r.name) end
     group by f.kind, f.name
)
select kind, what, lacking, quote_ident(current_user) from lacks order by kind, what

-- part delivering
('table', 'sendoff.outbox_schema', 'version', 'select'),
('table', 'sendoff.outbox_event',
 'event_id seq occurred_at due_at created_at done_at attempts status shard losses event_type '
 || 'aggregate_type aggregate_id tenant_id ordering_key content_type locked_by last_error headers '
 || 'payload', 'select update delete'),
('table', 'sendoff.outbox_handled', 'aggregate_type event_type seen_at', 'select insert update'),
('table', 'sendoff.outbox_key',
 'ordering_key due_at since taken_at parked_by run careful losses shelved locked_by',
 'select insert update delete'),
('table', 'sendoff.outbox_pause', 'scope name since actor reason', 'select'),
('table', 'sendoff.outbox_tally', 'event_type status count ended_at', 'select insert update delete'),
('table', 'sendoff.outbox_tally_delta', 'event_type status count', 'select insert update delete'),
('sequence', case when $1::boolean then 'sendoff.outbox_bell' end, '', 'select,usage update'),
('function', 'sendoff.outbox_take_keys(text, bigint, smallint, interval, boolean, text[], text[], text[], '
 || 'bigint, bigint)', '', 'execute'),
('function', 'sendoff.outbox_key_free(text)', '', 'execute'),
('function', 'sendoff.outbox_keys_ended(text[], uuid[], smallint[])', '', 'execute')

-- part publishing
('table', 'sendoff.journal_schema', 'version', 'select'),
('table', 'sendoff.journal_event',
 'position event_id occurred_at recorded_at correlation_id causation_id event_type content_type tags '
 || 'headers payload', 'select'),
('table', 'sendoff.journal_tag', 'tag position', 'select'),
('table', 'sendoff.journal_cursor',
 'topic publisher last_position status error_count last_error leader epoch heartbeat_at published_at '
 || 'updated_at waits_at waits_since', 'select insert update'),
('table', 'sendoff.journal_parked', 'topic publisher position parked_at next_at attempts error',
 'select insert update delete'),
('table', 'sendoff.journal_node', 'owner lock_key started_at heartbeat_at renew lease knows',
 'select insert update delete'),
('sequence', 'sendoff.journal_position', '', 'select'),
('sequence', case when $1::boolean then 'sendoff.journal_bell' end, '', 'select,usage update'),
('function', 'sendoff.journal_alive(text)', '', 'execute'),
('function', 'sendoff.journal_search(smallint[], text[], text[], bigint, bigint, bigint)', '',
 'execute')
