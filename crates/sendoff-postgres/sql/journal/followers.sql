-- followers: the time, the last fact, and how far everybody is: cursors with their status, and the
-- lowest position that each pair has parked, without one. One row at least.
-- Guarantee: one snapshot, so that a cursor that moved on is seen with what it parked.
-- Index: primary keys; there is a row for each pair and for each fact that was parked.
select clock_timestamp() as asked_at,
       (select coalesce(max(position), 0) from sendoff.journal_event) as head,
       f.topic, f.publisher, f.position, f.status
  from (select) one
  left join (
        select topic, publisher, last_position as position, status from sendoff.journal_cursor
        union all
        select topic, publisher, min(position), null from sendoff.journal_parked
         group by topic, publisher
       ) f on true
