-- history: facts with a tag, of one of these types, from a position on, in order. Of payloads and
-- headers no more than the beginning.
-- Guarantee: sends no more than so many bytes for each of :limit rows, whatever is stored.
-- Index: primary key of journal_tag, then the primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type, e.occurred_at,
       left(e.headers, :header_chars), left(e.payload, :payload_bytes), e.correlation_id, e.causation_id
  from sendoff.journal_tag t force index (primary)
       straight_join sendoff.journal_event e force index (primary) on e.position = t.position
 where t.tag = :tag and t.position >= :from and t.position <= :up_to :types
 order by t.position
 limit :limit
