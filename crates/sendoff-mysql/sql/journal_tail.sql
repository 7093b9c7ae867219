-- journal_tail: the rows above a position up to another, voids among them, in order, as long as they
-- fit into so many bytes together; the first always. Of the first that does not fit no payload and no
-- headers. Sizes are added up before payloads are read, so that no more of them is sorted or sent.
-- Index: primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, if(s.total <= s.most, e.headers, null),
       if(s.total <= s.most, e.payload, null), e.correlation_id, e.causation_id,
       if(s.total <= s.most, 1, 0)
  from (select p.position, p.size, sum(p.size) over (order by p.position) as total,
               greatest(:bytes, first_value(p.size) over (order by p.position)) as most
          from (select f.position,
                       coalesce(octet_length(f.payload), 0) + coalesce(octet_length(f.headers), 0) as size
                  from sendoff.journal_event f force index (primary)
                 where f.position > :after and f.position <= :up_to
                 order by f.position
                 limit :limit) p) s
       straight_join sendoff.journal_event e force index (primary) on e.position = s.position
 where s.total - s.size <= s.most
 order by s.position
