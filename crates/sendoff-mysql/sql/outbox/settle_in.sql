-- Marking a row as delivered in the transaction of its effect, by the token that it is held by.

-- settle_in: where rows are kept.
-- Guarantee: from here on nobody else can have the row until the transaction ends, and a stale token changes
-- nothing; waits for whoever has the row locked as long as the session waits for a row lock. Of the settings of the
-- session only one matters: with innodb_snapshot_isolation a row that was extended since the transaction's first look
-- fails (1020). A row that is gone leaves a lock on the gap where it was, at REPEATABLE READ, until the transaction is
-- rolled back, as its caller is told to. Index: primary key, the whole of it also in partitions, and forced: by a
-- part of it, or by `seq`, a session at REPEATABLE READ, which is the default, would lock the gap after the row too,
-- where the next events go (G8).
--
-- settle_in_delete: the same, where delivered rows are deleted.
-- text settle_in, settle_in_delete
set @sendoff_seq = null, @sendoff_type = null;
select e.seq, e.event_type into @sendoff_seq, @sendoff_type
  from sendoff.outbox_event e force index (primary)
 where e.event_id = :id and e.created_at = :created
   and e.due_at = :token and e.status in (0, 2) and e.locked_by is not null
   for update;
update sendoff.outbox_event e force index (primary)                               -- [settle_in]
   set e.due_at = null, e.done_at = utc_timestamp(6), e.status = 1, e.losses = 0,  -- [settle_in]
       e.unavailable_since = null, e.unroutable_since = null, e.locked_by = null   -- [settle_in]
 where e.event_id = :id and e.created_at = :created and e.seq = @sendoff_seq;     -- [settle_in]
delete e from sendoff.outbox_event e force index (primary)                        -- [settle_in_delete]
 where e.event_id = :id and e.created_at = :created and e.seq = @sendoff_seq;     -- [settle_in_delete]
insert into sendoff.outbox_tally_delta (part, event_type, status, count)
select :part, @sendoff_type, 1, 1 from dual where @sendoff_seq is not null

-- was_settled_in: whether the row was held by the token. Reads no table.
-- text was_settled_in
select @sendoff_seq is not null
