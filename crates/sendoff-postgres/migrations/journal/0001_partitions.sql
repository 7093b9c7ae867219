-- journal migration 1, for a journal in partitions: the tails, and ids that are there once.
-- Guarantee: runs right behind migration 1, in its transaction, and only in this layout.

-- Rows that no other partition is there for. What is in one is moved when its partition is made.
create table sendoff.journal_event_pmax partition of sendoff.journal_event default;
create table sendoff.journal_tag_pmax partition of sendoff.journal_tag default;
create index on sendoff.journal_tag_pmax (position);
alter table sendoff.journal_event_pmax set (autovacuum_vacuum_insert_scale_factor = 0.05);
alter table sendoff.journal_tag_pmax set (autovacuum_vacuum_insert_scale_factor = 0.05);

-- An id is unique only within a partition, so all of them are here once more. Nothing is looked for by
-- position: whoever takes a partition out reads in it which ids are to be forgotten.
create table sendoff.journal_id (
    event_id uuid   not null primary key,
    position bigint not null
);
alter table sendoff.journal_id set (autovacuum_vacuum_insert_scale_factor = 0.05);

-- Leaves a fact out whose id is there, as `on conflict do nothing` would: also where the other one is
-- appended at the same time, which is waited for.
create function sendoff.journal_enter() returns trigger
language plpgsql volatile as $body$
begin
    insert into sendoff.journal_id (event_id, position) values (new.event_id, new.position)
    on conflict do nothing;
    if not found then
        return null;
    end if;
    return new;
end
$body$;

create trigger journal_enter before insert on sendoff.journal_event
    for each row execute function sendoff.journal_enter();
