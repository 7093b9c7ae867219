-- partition_end: forget a partition with its rows by `partition_drop`, unless one of them is owed a
-- delivery (answers 1), or dead and not allowed to go (2), as none may that a key waits for: asked under a lock that
-- nobody else reads or writes beside.
-- Guarantee: no transaction is under way that wrote to the table: the server waits for those, as long
-- as the session may. The lock begins and ends within this text; where a statement of it fails, the
-- session ends after :seconds of silence, and the lock with it.
-- Index: outbox_event_due, outbox_event_aside, outbox_key_parked.
set @sendoff_silence = @@session.wait_timeout;
set session wait_timeout = :seconds;
lock tables sendoff.outbox_event write, sendoff.outbox_key read;
set @sendoff_left =
    (select exists (select 1 from sendoff.outbox_event partition (:partition) where due_at is not null));
set @sendoff_left = if(@sendoff_left, @sendoff_left, 2 *
    (select exists (select 1 from sendoff.outbox_event partition (:partition)
                     where aside = 3
                       and (not :drop_dead or event_id in (select parked_by from sendoff.outbox_key
                                                            where parked_by is not null)))));
set @sendoff_drop = if(@sendoff_left, 'do 0', :drop);
prepare sendoff_drop from @sendoff_drop;
execute sendoff_drop;
deallocate prepare sendoff_drop;
unlock tables;
set session wait_timeout = @sendoff_silence;
select @sendoff_left
