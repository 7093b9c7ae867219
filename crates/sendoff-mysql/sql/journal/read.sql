-- Rows between two positions, in order, as long as they fit into so many bytes together; the first
-- always. Of the first that does not fit no payload and no headers. Sizes are added up before payloads
-- are read, so that no more of them is sorted or sent.

-- read: facts that a query means, each once.
-- Index: those of the searches, then the primary key.
--
-- tail: all rows, voids among them. Index: primary key.
-- text read, tail
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, if(s.total <= s.most, e.headers, null),
       if(s.total <= s.most, e.payload, null), e.correlation_id, e.causation_id,
       if(s.total <= s.most, 1, 0)
  from (select p.position, p.size, sum(p.size) over (order by p.position) as total,
               greatest(:bytes, first_value(p.size) over (order by p.position)) as most
          from (select r.position,
                       coalesce(octet_length(r.payload), 0) + coalesce(octet_length(r.headers), 0) as size
                  from (select distinct f.position from (:searches) f                 -- [read]
                         order by f.position limit :limit) d                          -- [read]
                       straight_join sendoff.journal_event r force index (primary)    -- [read]
                         on r.position = d.position) p) s                             -- [read]
                  from sendoff.journal_event r force index (primary)                  -- [tail]
                 where r.position > :after and r.position <= :up_to                   -- [tail]
                 order by r.position                                                  -- [tail]
                 limit :limit) p) s                                                   -- [tail]
       straight_join sendoff.journal_event e force index (primary) on e.position = s.position
 where s.total - s.size <= s.most
 order by s.position
