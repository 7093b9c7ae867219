-- journal migration 2: the nodes that publish, and what makes one of them dead.
-- Guarantee: runs once, in the transaction that also writes journal_schema.

-- A node that publishes. Pairs are led by nodes, and a node says for all of them that it is alive: the
-- cost of leading does not grow with the pairs.
create table sendoff.journal_node (
    owner        text        not null primary key,
    -- The advisory lock that its session holds, in the space of two integers, of which the first is
    -- this table's; none where there is no session of its own.
    lock_key     integer,
    started_at   timestamptz not null default clock_timestamp(),
    heartbeat_at timestamptz not null default clock_timestamp(),
    renew        interval    not null,
    lease        interval    not null,
    -- Keys of the pairs it has publishers for.
    knows        bigint[]    not null
) with (fillfactor = 50);

-- Whether a node is alive, by this server's clock. A session that is gone does not prove its death (a
-- restart of the server ends all of them at once), but with two renewals missed it is enough; without
-- that the whole lease has to run out.
create function sendoff.journal_alive(who text) returns boolean
language sql volatile as $body$
    select exists (
        select from sendoff.journal_node n
         where n.owner = who
           and n.heartbeat_at + n.lease > clock_timestamp()
           and (n.lock_key is null
                or n.heartbeat_at + 2 * n.renew > clock_timestamp()
                or exists (
                    select from pg_catalog.pg_locks l
                     where l.locktype = 'advisory' and l.granted and l.objsubid = 2
                       and l.database = (select oid from pg_catalog.pg_database
                                          where datname = current_database())
                       and l.classid = 'sendoff.journal_node'::regclass::oid
                       and l.objid = n.lock_key::oid)))
$body$;

create index on sendoff.journal_parked (topic, publisher, next_at) where next_at is not null;
