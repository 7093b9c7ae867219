-- fetch: one fact. Index: primary key.
select position, recorded_at, event_id, event_type, tags, content_type, occurred_at, headers, payload,
       correlation_id, causation_id
  from journal_event
 where position = ?1
