-- pause: from now on ?1, ?2 (scope, name) is not delivered.
-- Guarantee: nothing changes where it is paused already, and where ?6 things are. Index: primary key.
-- text pause
insert into outbox_pause (scope, name, since, actor, reason)
select ?1, ?2, ?3, ?4, ?5 where (select count(*) from outbox_pause) < ?6
on conflict do nothing

-- paused: whether there was room for it.
-- Guarantee: reads only. Index: primary key.
-- text paused
select exists (select 1 from outbox_pause where scope = ?1 and name = ?2)

-- resume: from now on it is delivered again. Index: primary key.
-- text resume
delete from outbox_pause where scope = ?1 and name = ?2

-- audit_pause: writes down what was done, in the transaction that does it.
-- Guarantee: entries are numbered in the order of commits. Index: primary key.
-- text audit_pause
insert into outbox_audit (at, action, actor, reason, subject) values (?1, ?2, ?3, ?4, ?5)
