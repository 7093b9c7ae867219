-- insert_many: new rows of any number, in the caller's transaction.
-- Guarantee: all of them or none, since it is one statement; a second row with the same id is refused.
-- Index: unique (event_id).
-- ?1: a JSON array with an array for each row; ?2: ids and payloads, one after the other. A row names where
-- its id begins, its columns, and where its payload begins and how long it is.
insert into outbox_event
       (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
        content_type, occurred_at, due_at, created_at, locked_by, headers, payload, delayed_until)
select substr(?2, r.value ->> 0, 16), r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,
       r.value ->> 5, r.value ->> 6, r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10,
       r.value ->> 11, r.value ->> 12, substr(?2, r.value ->> 13, r.value ->> 14), r.value ->> 15
  from json_each(?1) as r
 order by r.key
