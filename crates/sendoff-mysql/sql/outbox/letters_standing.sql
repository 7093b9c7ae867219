-- letters_standing: where these events stand. A plain read, which waits for nobody. Index: primary key.
select event_id, status, done_at from sendoff.outbox_event where event_id in (:ids)
