-- ready: does what publishing does, to no row.
-- Guarantee: the server looks at every column and right before it finds that there is nothing to do: it
-- refuses what it would refuse later, and reads, locks and changes nothing. Index: none.
select position, event_id, occurred_at, recorded_at, correlation_id, causation_id, event_type, content_type,
       tags, headers, payload
  from sendoff.journal_event where false for update;
insert ignore into sendoff.journal_event (position, recorded_at)
select position, recorded_at from sendoff.journal_event where false;
select tag, position from sendoff.journal_tag where false;
insert into sendoff.journal_floor (one, position)
select one, position from sendoff.journal_floor f where false
on duplicate key update sendoff.journal_floor.position = f.position;
select one, position from sendoff.journal_gone where false;
insert into sendoff.journal_hole (first_position, last_position, closed_at)
select first_position, last_position, closed_at from sendoff.journal_hole h where false
on duplicate key update sendoff.journal_hole.first_position = h.first_position;
insert into sendoff.journal_cursor
       (topic, publisher, last_position, status, error_count, last_error, leader, epoch, heartbeat_at,
        published_at, updated_at, waits_at, waits_since)
select topic, publisher, last_position, status, error_count, last_error, leader, epoch, heartbeat_at,
       published_at, updated_at, waits_at, waits_since
  from sendoff.journal_cursor where false;
update sendoff.journal_cursor set last_position = last_position where false;
insert into sendoff.journal_parked (topic, publisher, position, parked_at, next_at, attempts, error)
select topic, publisher, position, parked_at, next_at, attempts, error
  from sendoff.journal_parked where false;
update sendoff.journal_parked set attempts = attempts where false;
delete from sendoff.journal_parked where false;
insert into sendoff.journal_node (owner, lock_name, started_at, heartbeat_at, renew, lease, knows)
select owner, lock_name, started_at, heartbeat_at, renew, lease, knows
  from sendoff.journal_node where false;
update sendoff.journal_node set heartbeat_at = heartbeat_at where false;
delete from sendoff.journal_node where false
