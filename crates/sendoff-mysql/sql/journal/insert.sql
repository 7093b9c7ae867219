-- insert: new facts, at the time that `at` noted just before.
-- Guarantee: all of a statement's rows or none, and their positions follow one another, because the
-- server knows their number. Index: primary key; unique (event_id).
insert into sendoff.journal_event
       (event_id, event_type, content_type, occurred_at, recorded_at, correlation_id, causation_id,
        tags, headers, payload)
values :rows
