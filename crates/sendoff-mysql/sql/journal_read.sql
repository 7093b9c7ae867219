-- journal_read: facts that a query means, between two positions, in order, each once, as long as they
-- fit into so many bytes together; the first always. Of the first that does not fit no payload and no
-- headers.
-- Index: those of the searches, then the primary key.
select e.position, e.recorded_at, e.event_id, e.event_type, e.tags, e.content_type,
       e.occurred_at, if(s.total <= s.most, e.headers, null),
       if(s.total <= s.most, e.payload, null), e.correlation_id, e.causation_id,
       if(s.total <= s.most, 1, 0)
  from (select p.position, p.size, sum(p.size) over (order by p.position) as total,
               greatest(:bytes, first_value(p.size) over (order by p.position)) as most
          from (select r.position,
                       coalesce(octet_length(r.payload), 0) + coalesce(octet_length(r.headers), 0) as size
                  from (select distinct f.position from (:searches) f
                         order by f.position limit :limit) d
                       straight_join sendoff.journal_event r force index (primary)
                         on r.position = d.position) p) s
       straight_join sendoff.journal_event e force index (primary) on e.position = s.position
 where s.total - s.size <= s.most
 order by s.position
