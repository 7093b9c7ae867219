-- set_aside: a row that makes statements fail is dead, so that it keeps no other from being claimed.
-- Guarantee: only while it is pending and due when it was. Index: primary key.
with ended as (
    update sendoff.outbox_event
       set status = 3, done_at = now(), last_error = $3::text, locked_by = null
     where event_id = $1::uuid and due_at = $2::timestamptz and status % 2 = 0
    returning event_type, status
), counted as (
    insert into sendoff.outbox_tally_delta (event_type, status, count)
    select event_type, status, 1 from ended
)
select count(*) from ended
