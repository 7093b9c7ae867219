-- set_aside: a row that makes statements fail is dead, so that it keeps no other from being claimed. Its key,
-- if it has one, is parked, as after every death that nobody decided otherwise about.
-- Guarantee: only while it is pending and due when it was. Index: primary keys.
with ended as (
    update sendoff.outbox_event
       set status = 3, done_at = now(), last_error = $3::text, locked_by = null
     where event_id = $1::uuid and due_at = $2::timestamptz and status % 2 = 0
    returning event_id, event_type, status, ordering_key
), counted as (
    insert into sendoff.outbox_tally_delta (event_type, status, count)
    select event_type, status, 1 from ended
), parked as (
    insert into sendoff.outbox_key (ordering_key, due_at, since, parked_by)
    select ordering_key, now(), now(), event_id from ended where ordering_key is not null
    on conflict (ordering_key) do update set parked_by = excluded.parked_by
)
select count(*) from ended
