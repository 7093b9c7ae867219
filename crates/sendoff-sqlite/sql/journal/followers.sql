-- followers: how far everybody is: cursors with their status, and the lowest position that each pair
-- has parked, without one. Index: primary keys.
select topic, publisher, last_position, status from journal_cursor
union all
select topic, publisher, min(position), null from journal_parked group by topic, publisher
