-- purge: deletes facts and their tags between two positions, the lowest first.
-- Guarantee: nothing above a cursor, and nothing that was parked, as it is in this statement's own
-- snapshot; nothing recorded at the given time or later. Waits for no row: what somebody else deletes
-- he deletes.
-- Index: primary keys.
with passed as materialized (
    select least($2::bigint,
                 (select min(last_position) from sendoff.journal_cursor),
                 (select min(position) - 1 from sendoff.journal_parked)) as up_to
), doomed as materialized (
    select e.position, e.tags
      from sendoff.journal_event e
     where e.position > $1::bigint and e.position <= (select up_to from passed)
       and ($3::timestamptz is null or e.recorded_at < $3::timestamptz)
     order by e.position
     limit $4::bigint
       for update skip locked
), untagged as (
    delete from sendoff.journal_tag t
     using (select u.tag, d.position from doomed d cross join unnest(d.tags) as u(tag)) as x
     where t.tag = x.tag and t.position = x.position
), gone as (
    delete from sendoff.journal_event e
     using doomed d
     where e.position = d.position
    returning e.position
)
select count(*), coalesce(max(position), 0) from gone
