-- tally: add to the counter of one type and status.
-- Guarantee: runs in the transaction that ended the rows. Index: primary key.
insert into outbox_tally (event_type, status, count, ended_at) values (?1, ?2, ?3, ?4)
on conflict (event_type, status) do update
   set count = count + excluded.count, ended_at = excluded.ended_at
