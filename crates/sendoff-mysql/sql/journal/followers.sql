-- followers: the time, the head, and how far everybody is: cursors with their status, and the
-- lowest position that each pair has parked, without one. One row at least.
-- Guarantee: one snapshot, so that a cursor that moved on is seen with what it parked.
-- Index: primary keys; there is a row for each pair and for each fact that was parked.
select utc_timestamp(6),
       cast(greatest(coalesce((select max(position) from sendoff.journal_event), 0), g.position)
            as signed),
       f.topic, f.publisher, f.position, f.status
  from sendoff.journal_gone g
       left join (
           select c.topic, c.publisher, c.last_position as position, c.status
             from sendoff.journal_cursor c
           union all
           select k.topic, k.publisher, min(k.position), null
             from sendoff.journal_parked k
            group by k.topic, k.publisher
       ) f on true
 where g.one = 1
