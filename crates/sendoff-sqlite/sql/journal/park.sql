-- park: sets a fact aside, or does so again. Index: primary key.
insert into journal_parked (topic, publisher, position, parked_at, next_at, attempts, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (topic, publisher, position) do update
   set next_at = excluded.next_at, attempts = excluded.attempts, error = excluded.error
