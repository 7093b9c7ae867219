-- insert: one fact.
-- Guarantee: the next position, in the order of commits. Index: unique event_id.
insert into journal_event
       (event_id, event_type, content_type, occurred_at, recorded_at, correlation_id, causation_id,
        tags, headers, payload)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
returning position
