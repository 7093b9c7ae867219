-- present: whether any of these events is there, committed. Index: primary key.
select exists (select 1 from sendoff.outbox_event where event_id = any ($1::uuid[]))
