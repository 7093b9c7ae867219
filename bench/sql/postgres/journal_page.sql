-- journal_page: the next facts, by hand. It skips what commits late; the tail does not.
select position, recorded_at, event_id, event_type, tags, content_type, occurred_at, headers, payload,
       correlation_id, causation_id
  from journal_event
 where position > $1
 order by position
 limit $2
