-- pause: from now on $1, $2 (scope, name) is not delivered.
-- Guarantee: writes it down in the audit as well, or does neither: where it is paused already, and where
-- $6 things are. Tells every node that listens when it commits, and commits durably. Answers whether it is
-- new, and whether there was no room for it. Index: primary key.
-- text pause
with paused as (
    insert into sendoff.outbox_pause (scope, name, actor, reason)
    select $1::smallint, $2::text, $3::text, $4::text
     where (select count(*) from sendoff.outbox_pause) < $6::bigint
    on conflict do nothing
    returning scope
), audited as (
    insert into sendoff.outbox_audit (action, actor, reason, subject)
    select 'pause', $3::text, $4::text, $5::text from paused
)
select exists (select from paused),
       (select count(*) from sendoff.outbox_pause) >= $6::bigint
       and not exists (select from sendoff.outbox_pause
                        where scope = $1::smallint and name = $2::text),
       (select {told} from paused)

-- resume: from now on it is delivered again.
-- Guarantee: writes it down in the audit as well, or does neither where it was not paused. As `pause`
-- otherwise. Index: primary key.
-- text resume
with resumed as (
    delete from sendoff.outbox_pause where scope = $1::smallint and name = $2::text returning scope
), audited as (
    insert into sendoff.outbox_audit (action, actor, reason, subject)
    select 'resume', $3::text, $4::text, $5::text from resumed
)
select exists (select from resumed), false, (select {told} from resumed)

-- Tells nodes, and makes the transaction durable whatever the session does otherwise.
-- part told
concat(pg_notify('sendoff_channel', 'pauses')::text,
       case when current_setting('synchronous_commit') = 'off'
            then set_config('synchronous_commit', 'local', true) end)
