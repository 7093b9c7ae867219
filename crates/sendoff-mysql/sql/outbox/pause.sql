-- pause: from now on :scope, :name is not delivered.
-- Guarantee: writes it down in the audit as well, or does neither: where it is paused already, and where
-- :most things are. Answers whether it is new, and whether there was no room for it. Index: primary key.
-- text pause
start transaction;
select count(*), coalesce(sum(scope = :scope and name = :name), 0) into @sendoff_pauses, @sendoff_known
  from sendoff.outbox_pause;
insert ignore into sendoff.outbox_pause (scope, name, since, actor, reason)
select s.scope, s.name, utc_timestamp(6), s.actor, s.reason
  from (select :scope as scope, :name as name, :actor as actor, :reason as reason) s
 where @sendoff_pauses < :most;
set @sendoff_changed = row_count();
{audited};
commit;
select @sendoff_changed, @sendoff_pauses >= :most and @sendoff_known = 0

-- resume: from now on it is delivered again.
-- Guarantee: writes it down in the audit as well, or does neither where it was not paused. Index: primary key.
-- text resume
start transaction;
delete from sendoff.outbox_pause where scope = :scope and name = :name;
set @sendoff_changed = row_count();
{audited};
commit;
select @sendoff_changed, 0

-- part audited
insert into sendoff.outbox_audit (at, action, actor, reason, subject)
select utc_timestamp(6), 'pause', s.actor, s.reason, s.subject    -- [pause]
select utc_timestamp(6), 'resume', s.actor, s.reason, s.subject   -- [resume]
  from (select :actor as actor, :reason as reason, :subject as subject) s
 where @sendoff_changed > 0
