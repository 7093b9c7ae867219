-- counts: rows by status. Scans the table.
select status, count(*) from outbox_event group by status
